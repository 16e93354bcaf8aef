"""Pooling over windows."""

from __future__ import annotations

from convfind_networks.graph import Node
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.lowering.operator import operator
from convfind_networks.ops import AveragePool, MaxPool, Window


def max_pool(around: Surroundings, node: Node) -> Call:
    """Lower the largest elements of windows, and where they are if asked."""
    op = node.op
    assert isinstance(op, MaxPool)
    return _pooling(around, node, op.window, function="max", indices=op.indices)


def average_pool(around: Surroundings, node: Node) -> Call:
    """Lower the means of windows."""
    op = node.op
    assert isinstance(op, AveragePool)
    how = {"count_include_pad": op.count_include_pad, "divisor": op.divisor}
    return _pooling(around, node, op.window, function="average", **how)


def _pooling(around: Surroundings, node: Node, window: Window, **fields: object) -> Call:
    x = node.inputs[0]
    operands = {"x": x, **dict(zip(("y", "indices"), node.outputs, strict=False))}
    return operator(
        around,
        node,
        "pooling",
        operands,
        x=around.type(x).shape,
        size=window.size,
        stride=window.stride,
        padding=window.padding,
        padding_end=window.padding_end,
        dilation=window.dilation,
        ceil_mode=window.ceil_mode,
        **fields,
    )
