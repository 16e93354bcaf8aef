"""`join_projections`: linear layers of one value, whose results an attention reads, become one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import Attention, Linear, StridedView
from convfind_networks.ops.epilogue import Epilogue

#: The inputs of an attention that are parts of other tensors, and the fields that say which.
_PARTS = ("q", "k", "v")


def join_projections(graph: Graph) -> Graph:
    """Return a graph in which queries, keys and values of one input come from one product.

    Heads are read where they lie in its rows, so that nothing is copied.
    """
    edit = GraphEditor(graph)
    for node in edit:
        if isinstance(node.op, Attention):
            _join(edit, node)
    return edit.graph()


def _join(edit: GraphEditor, node: Node) -> None:
    op = node.op
    assert isinstance(op, Attention)
    made = {number: _projection(edit, node, number) for number in range(len(_PARTS))}
    layers = {number: layer for number, layer in made.items() if layer is not None}
    read = Counter(layer.inputs[0] for layer in layers.values())
    x = next((name for name, count in read.items() if count > 1), None)
    if x is None:
        return
    siblings = {number: layer for number, layer in layers.items() if layer.inputs[0] == x}
    widths = [edit.value(layer.inputs[1]).shape[0] for layer in siblings.values()]
    views = _in_one(op, list(siblings), widths)
    if views is None:
        return
    result = _joined(edit, x, list(siblings.values()), widths)
    inputs = list(node.inputs)
    for number in siblings:
        inputs[number] = result.output
    q, k, v = (views.get(name, getattr(op, name)) for name in _PARTS)
    joined = Node(replace(op, q=q, k=k, v=v), tuple(inputs), node.outputs, node.name)
    edit.replace([*siblings.values(), node], result, joined)


def _projection(edit: GraphEditor, node: Node, number: int) -> Node | None:
    """Return the linear layer that an input alone comes from, if nothing but a bias is added."""
    name = node.inputs[number]
    before = edit.producer(name)
    if before is None or not isinstance(before.op, Linear) or not edit.is_read_once(name):
        return None
    epilogue = before.op.epilogue
    is_plain = epilogue == Epilogue(bias=epilogue.bias)
    is_known = all(edit.data(one) is not None for one in before.inputs[1:])
    return before if is_plain and is_known else None


def _in_one(op: Attention, numbers: list[int], widths: list[int]) -> dict[str, StridedView] | None:
    """Return the views of the joined result, by field; None where one is of more than rows."""
    views: dict[str, StridedView] = {}
    begin = 0
    for number, width in zip(numbers, widths, strict=True):
        name = _PARTS[number]
        of: StridedView = getattr(op, name)
        view = of.in_rows(width, sum(widths), begin)
        if view is None:
            return None
        views[name] = view
        begin += width
    return views


def _joined(edit: GraphEditor, x: str, layers: list[Node], widths: list[int]) -> Node:
    weights, biases = [], []
    for layer, width in zip(layers, widths, strict=True):
        w, *bias = (edit.data(name) for name in layer.inputs[1:])
        assert w is not None
        weights.append(w)
        biases.append(bias[0] if bias and bias[0] is not None else np.zeros(width, w.dtype))
    has_bias = any(len(layer.inputs) > 2 for layer in layers)
    first = layers[0]
    inputs = [x, edit.constant(np.concatenate(weights), first.inputs[1])]
    if has_bias:
        inputs.append(edit.constant(np.concatenate(biases), inputs[1]))
    kind = edit.value(first.output).type
    result = edit.result(kind.with_shape((*kind.shape[:-1], sum(widths))), first.output)
    return Node(Linear(Epilogue(bias=has_bias)), tuple(inputs), (result,), first.name)
