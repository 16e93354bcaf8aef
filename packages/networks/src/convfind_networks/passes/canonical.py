"""Canonical forms: one way to write what models write in several."""

from __future__ import annotations

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    ChannelShuffle,
    GlobalPool,
    GroupNorm,
    Linear,
    MatMul,
    PoolKind,
    Reduce,
    ReduceFunction,
    Reshape,
    Transpose,
)

_POOLS = {ReduceFunction.MEAN: PoolKind.AVERAGE, ReduceFunction.MAX: PoolKind.MAX}


def canonicalize(graph: Graph) -> Graph:
    """Write `Linear`, `GlobalPool` and the like for what models compose of others."""
    edit = GraphEditor(graph)
    for node in edit:
        match node.op:
            case MatMul(alpha=1):
                _matmul(edit, node)
            case Reshape():
                if not _channel_shuffle(edit, node):
                    _group_norm(edit, node)
            case Reduce(function=function) if function in _POOLS:
                _spatial_reduction(edit, node, node.op)
    return edit.graph()


def _matmul(edit: GraphEditor, node: Node) -> None:
    x, matrix = node.inputs
    data = edit.data(matrix)
    if data is None or data.ndim != 2 or not edit.value(x).type.is_float:
        return
    weights = edit.constant(np.ascontiguousarray(data.T), like=matrix)
    edit.replace([node], Node(Linear(), (x, weights), node.outputs, node.name))


def _channel_shuffle(edit: GraphEditor, node: Node) -> bool:
    """Recognise a reshape that splits the channels, a transpose, and a reshape back."""
    turned = edit.producer(node.inputs[0])
    split = edit.producer(turned.inputs[0]) if turned and isinstance(turned.op, Transpose) else None
    if turned is None or split is None or not isinstance(split.op, Reshape):
        return False
    x, wide = edit.value(split.inputs[0]).type, split.op.shape
    rank = len(wide)
    if (
        x != edit.value(node.output).type
        or x.rank != rank - 1
        or (wide[0], *wide[3:]) != (x.shape[0], *x.shape[2:])
        or turned.op != Transpose((0, 2, 1, *range(3, rank)))
    ):
        return False
    op = ChannelShuffle(wide[1])
    edit.replace([node], Node(op, split.inputs, node.outputs, node.name))
    return True


def _group_norm(edit: GraphEditor, node: Node) -> None:
    """Recognise a norm of each group as a channel, between two reshapes."""
    norm = edit.producer(node.inputs[0])
    if norm is None or not isinstance(norm.op, GroupNorm):
        return
    wide = edit.producer(norm.inputs[0])
    if wide is None or not isinstance(wide.op, Reshape):
        return
    x, groups = edit.value(wide.inputs[0]).type, norm.op.groups
    scale, bias = (edit.data(name) for name in norm.inputs[1:])
    if (
        x != edit.value(node.output).type
        or x.rank < 3
        or wide.op.shape[:2] != (x.shape[0], groups)
        or x.shape[1] % groups
        or scale is None
        or bias is None
    ):
        return
    share = x.shape[1] // groups
    parameters = (
        edit.constant(np.repeat(data, share), like=name)
        for data, name in zip((scale, bias), norm.inputs[1:], strict=True)
    )
    edit.replace([node], Node(norm.op, (wide.inputs[0], *parameters), node.outputs, node.name))


def _spatial_reduction(edit: GraphEditor, node: Node, reduce: Reduce) -> None:
    x = edit.value(node.inputs[0]).type
    if not 3 <= x.rank <= 5 or sorted(reduce.axes) != list(range(2, x.rank)) or not x.is_float:
        return
    pool = GlobalPool(_POOLS[reduce.function])
    if reduce.keepdims:
        edit.replace([node], Node(pool, node.inputs, node.outputs, node.name))
        return
    pooled = edit.result(pool.infer(x), like=node.output)
    edit.replace(
        [node],
        Node(pool, node.inputs, (pooled,), node.name),
        Node(Reshape(x.shape[:2]), (pooled,), node.outputs, node.name),
    )
