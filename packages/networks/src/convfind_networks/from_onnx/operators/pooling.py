"""Pooling, local and global."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.from_onnx.operators.convolution import window_of
from convfind_networks.graph import Value
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    AveragePool,
    BinaryFunction,
    GlobalPool,
    MaxPool,
    Pad,
    PoolKind,
    ScatterElements,
    Window,
)


def pooling_window(node: OnnxNode, x: Value) -> Window:
    """Return the window of a pooling of x."""
    size = node.integers("kernel_shape")
    stride, begin, end, dilation = window_of(node, x.shape[2:], size)
    return Window(size, stride, begin, end, dilation, bool(node.integer("ceil_mode", 0)))


def max_pool(node: OnnxNode) -> Value | tuple[Value, ...]:
    """MaxPool, with indices if somebody reads them."""
    x = node.input(0)
    op = MaxPool(pooling_window(node, x), indices=node.has_output(1))
    if not op.indices:
        return node.add(op, x)
    y, places = node.add_all(op, x)
    if node.integer("storage_order", 0):
        places = _column_major(node, places, x.shape[2:])
    return y, places


def _column_major(node: OnnxNode, places: Value, spatial: tuple[int, ...]) -> Value:
    """Return places in images whose first dimension is the fastest."""
    image = math.prod(spatial)
    result = node.times(node.over(places, image), image)
    inner = image
    outer = 1
    for size in spatial:
        inner //= size
        at = node.binary(BinaryFunction.MOD, node.over(places, inner), size)
        result = node.plus(result, node.times(at, outer))
        outer *= size
    return result


def average_pool(node: OnnxNode) -> Value:
    """AveragePool."""
    x = node.input(0)
    return node.add(
        AveragePool(pooling_window(node, x), bool(node.integer("count_include_pad", 0))), x
    )


def _power(node: OnnxNode, x: Value, exponent: float) -> Value:
    if exponent == 1:
        return x
    return node.add(Activate(Activation(ActivationKind.POWER, (0, 1, exponent))), x)


def _norm(node: OnnxNode, total: Callable[[Value], Value]) -> Value:
    """Return the p-norm of what ``total`` sums."""
    p = node.real("p", 2.0)
    absolute = node.add(Activate(Activation(ActivationKind.ABS)), node.input(0))
    return _power(node, total(_power(node, absolute, p)), 1 / p)


def lp_pool(node: OnnxNode) -> Value:
    """LpPool: a sum of powers is an average that is divided by 1."""
    window = pooling_window(node, node.input(0))
    return _norm(node, lambda x: node.add(AveragePool(window, divisor=1), x))


def global_pool(node: OnnxNode) -> Value:
    """GlobalAveragePool and GlobalMaxPool."""
    kind = PoolKind.MAX if node.proto.op_type == "GlobalMaxPool" else PoolKind.AVERAGE
    return node.add(GlobalPool(kind), node.input(0))


def global_lp_pool(node: OnnxNode) -> Value:
    """GlobalLpPool: a sum is a mean times the number of elements."""
    x = node.input(0)
    count = x.type.elements // (x.shape[0] * x.shape[1])
    return _norm(node, lambda y: node.times(node.add(GlobalPool(PoolKind.AVERAGE), y), count))


def max_unpool(node: OnnxNode) -> Value:
    """MaxUnpool: elements go back to where a MaxPool found them, among zeros."""
    x, indices = node.input(0), node.input(1)
    size, spatial = node.integers("kernel_shape"), x.shape[2:]
    stride, begin, end, _ = window_of(node, spatial, size)
    whole = (
        (n - 1) * s + k - b - e
        for n, s, k, b, e in zip(spatial, stride, size, begin, end, strict=True)
    )
    shape = (*x.shape[:2], *whole)
    zeros = node.const(np.zeros(math.prod(shape)), like=x)
    places, elements = (node.reshape(one, x.type.elements) for one in (indices, x))
    y = node.reshape(node.add(ScatterElements(0), zeros, places, elements), *shape)
    if node.optional(2) is None:
        return y
    wanted = node.array(2, "output_shape").reshape(-1)
    more = tuple(int(size) - own for size, own in zip(wanted, shape, strict=True))
    return node.add(Pad((0,) * len(more), more), y)


OPERATORS: OnnxOperators = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "MaxUnpool": max_unpool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_pool,
    "GlobalMaxPool": global_pool,
    "GlobalLpPool": global_lp_pool,
}
