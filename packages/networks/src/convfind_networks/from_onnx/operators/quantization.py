"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BinaryFunction,
    Dequantize,
    Quantize,
    ReduceFunction,
    UnaryFunction,
    Where,
)


def _axis(node: OnnxNode, x: Value) -> int:
    """Return the axis of scales, which means nothing to scalars."""
    axis = node.integer("axis", 1)
    return axis + x.type.rank if axis < 0 else axis


def quantize(node: OnnxNode) -> Value:
    """QuantizeLinear; the type is that of the zero point."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    if node.integer("precision", 0):
        raise NotSupported("precision: division in a narrow type")
    usual = np.dtype(np.uint8) if zero is None else zero.dtype
    dtype = node.dtype("output_dtype", usual)
    if "float" in dtype.name and not node.integer("saturate", 1):
        raise NotSupported("saturate=0")
    real = node.cast(x, np.float32) if x.dtype == np.dtype(np.int32) else x
    return node.add(Quantize(dtype, _axis(node, x)), *filter(None, (real, scale, zero)))


def dequantize(node: OnnxNode) -> Value:
    """DequantizeLinear; the type is that of the scales."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    op = Dequantize(node.dtype("output_dtype", scale.dtype), _axis(node, x))
    return node.add(op, *filter(None, (x, scale, zero)))


def dynamic(node: OnnxNode) -> tuple[Value, ...]:
    """DynamicQuantizeLinear: uint8 over the range of the data, 0 included."""
    x = node.input(0)
    axes = range(x.type.rank)
    low = node.reduce(ReduceFunction.MIN, x, *axes, keepdims=False)
    high = node.reduce(ReduceFunction.MAX, x, *axes, keepdims=False)
    low = node.binary(BinaryFunction.MIN, low, 0.0)
    high = node.binary(BinaryFunction.MAX, high, 0.0)
    scale = node.over(node.minus(high, low), 255.0)
    empty = node.binary(BinaryFunction.EQUAL, scale, 0.0)
    safe = node.add(Where(), empty, node.const(1, like=scale), scale)
    bounds = Activation(ActivationKind.CLIP, (0, 255))
    offset = node.add(Activate(bounds), node.unary(UnaryFunction.NEG, node.over(low, safe)))
    zero = node.cast(node.unary(UnaryFunction.ROUND, offset), np.uint8)
    return node.add(Quantize(zero.dtype), x, safe, zero), scale, zero


OPERATORS: OnnxOperators = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic,
}
