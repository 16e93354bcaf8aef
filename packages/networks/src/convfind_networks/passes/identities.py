"""Identities: nodes whose result is their input, and pairs that undo or repeat each other."""

from __future__ import annotations

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    Binary,
    Cast,
    Concat,
    Expand,
    Identity,
    Pad,
    Reshape,
    Slice,
    Transpose,
    Where,
)


def remove_identities(graph: Graph) -> Graph:
    """Remove what changes nothing, and join what can be done at once."""
    edit = GraphEditor(graph)
    for node in edit:
        joined = _repeating_itself(edit, _joined(edit, node))
        if joined is not node:
            edit.replace([node], joined)
        if _changes_nothing(edit, joined):
            edit.alias(joined, joined.inputs[0])
    return edit.graph()


def _changes_nothing(edit: GraphEditor, node: Node) -> bool:
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    if edit.value(node.inputs[0]).type != edit.value(node.output).type:
        return False
    match node.op:
        case Identity() | Reshape() | Expand() | Cast() | Concat():
            return True
        case Pad(begin=begin, end=end):  # which may cut off as much as they add
            return not any(begin + end)
        case Slice(step=step):
            return all(one == 1 for one in step)
        case Transpose(order=order):
            return order == tuple(range(len(order)))
    return False


def _joined(edit: GraphEditor, node: Node) -> Node:
    """Return a node that also does what the node before it did."""
    before = edit.producer(node.inputs[0]) if len(node.inputs) == 1 else None
    match node.op, before and before.op:
        case Reshape(), Reshape():
            assert before is not None
            return Node(node.op, before.inputs, node.outputs, node.name)
        case Transpose(order=outer), Transpose(order=inner):
            assert before is not None
            order = tuple(inner[axis] for axis in outer)
            return Node(Transpose(order), before.inputs, node.outputs, node.name)
    return node


def _repeating_itself(edit: GraphEditor, node: Node) -> Node:
    """Return a node that repeats what was repeated for it, if it has the same shape then."""
    if not isinstance(node.op, Binary | Where):
        return node
    inputs = list(node.inputs)
    for at, name in enumerate(node.inputs):
        before = edit.producer(name)
        if before is None or not isinstance(before.op, Expand):
            continue
        others = [*inputs[:at], before.inputs[0], *inputs[at + 1 :]]
        if np.broadcast_shapes(*(edit.value(one).shape for one in others)) == (
            edit.value(node.output).shape
        ):
            inputs = others
    return Node(node.op, tuple(inputs), node.outputs, node.name)
