"""Transposes: they go behind sums and products, which then meet what takes them in."""

from __future__ import annotations

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    Binary,
    BinaryFunction,
    Convolution,
    Linear,
    Reshape,
    Rotary,
    Transpose,
)


def move_transposes(graph: Graph) -> Graph:
    """Move transposes behind arithmetic with constants, and behind sums for a product's epilogue.

    Those of heads go behind embeddings of positions, as attention reads heads wherever they lie.

    Networks whose products have the channels last and whose convolutions do not, such as ConvNeXt,
    scale and add where the channels are first. Where a layout makes the transpose free, the other
    way round is as cheap, and `fold_scales` and `fuse_epilogues` leave nothing of the arithmetic.
    """
    edit = GraphEditor(graph)
    for node in edit:
        if isinstance(node.op, Binary):
            any(_moved(edit, node, node.op, side) for side in (0, 1))
        elif isinstance(node.op, Rotary):
            _embed_before(edit, node)
    return edit.graph()


def _moved(edit: GraphEditor, node: Node, op: Binary, side: int) -> bool:
    """Move the transpose of one of two operands; say whether that was possible."""
    turned, other = node.inputs[side], node.inputs[1 - side]
    transpose = edit.producer(turned)
    if transpose is None or not isinstance(transpose.op, Transpose):
        return False
    before = transpose.inputs[0]
    if not edit.is_read_once(turned) or edit.value(turned).type != edit.value(node.output).type:
        return False
    back = Transpose(tuple(map(int, np.argsort(transpose.op.order))))
    data, added = edit.data(other), []
    if data is not None:
        wide = data.reshape((1,) * (len(back.order) - data.ndim) + data.shape)
        other = edit.constant(np.ascontiguousarray(back.evaluate(wide)), like=other)
    elif op.function is BinaryFunction.ADD and _takes_a_sum(edit, before):
        kind = edit.value(other).type
        if kind != edit.value(turned).type:
            return False
        others = edit.producer(other)
        if others is not None and others.op == transpose.op:
            other = others.inputs[0]
        else:
            added = [Node(back, (other,), (edit.result(back.infer(kind), like=other),), node.name)]
            other = added[0].output
    else:
        return False
    result = edit.result(edit.value(before).type, like=node.output)
    operands = (before, other) if side == 0 else (other, before)
    arithmetic = Node(op, operands, (result,), node.name)
    behind = Node(transpose.op, (result,), node.outputs, transpose.name)
    edit.replace([transpose, node], *added, arithmetic, behind)
    return True


def _embed_before(edit: GraphEditor, node: Node) -> None:
    """Move a transpose that leaves rows as they are behind an embedding."""
    turned, *factors = node.inputs
    transpose = edit.producer(turned)
    if transpose is None or not isinstance(transpose.op, Transpose):
        return
    order = transpose.op.order
    if not edit.is_read_once(turned) or order[-1] != len(order) - 1:
        return
    back = tuple(map(int, np.argsort(order)))
    moved_factors, added = list[str](), list[Node]()
    for factor in factors:
        data, shape = edit.data(factor), edit.value(factor).shape
        wide = (1,) * (len(back) - len(shape)) + shape
        if data is not None:
            made = np.ascontiguousarray(data.reshape(wide).transpose(back))
            moved_factors.append(edit.constant(made, like=factor))
            continue
        moved = [axis for axis in back if wide[axis] != 1]
        if moved != sorted(moved):
            return  # elements would move
        reshape = Reshape(tuple(wide[axis] for axis in back))
        result = edit.result(reshape.infer(edit.value(factor).type), like=factor)
        added.append(Node(reshape, (factor,), (result,), result))
        moved_factors.append(result)
    before = transpose.inputs[0]
    result = edit.result(edit.value(before).type, like=node.output)
    embedding = Node(node.op, (before, *moved_factors), (result,), node.name)
    behind = Node(transpose.op, (result,), node.outputs, transpose.name)
    edit.replace([transpose, node], *added, embedding, behind)


def _takes_a_sum(edit: GraphEditor, name: str) -> bool:
    """Return whether a value is a product's, or a scaled one's, which can take in a sum."""
    before = edit.producer(name)
    if before is None or not edit.is_read_once(name):
        return False
    match before.op:
        case Convolution(epilogue=epilogue) | Linear(epilogue=epilogue):
            return not epilogue.residual
        case Binary(activation=None):
            a, b = before.inputs
            scaled = a if edit.data(b) is not None else b if edit.data(a) is not None else None
            return scaled is not None and _takes_a_sum(edit, scaled)
    return False
