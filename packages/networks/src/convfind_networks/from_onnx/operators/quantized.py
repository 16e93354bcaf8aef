"""ONNX Runtime's operators on quantised tensors: each real operator between two conversions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperator, OnnxOperators
from convfind_networks.from_onnx.operators.convolution import zero_point
from convfind_networks.from_onnx.operators.pooling import pooling_window
from convfind_networks.from_onnx.operators.products import zero_of_matrix
from convfind_networks.from_onnx.operators.quantization import dequantize, dynamic, quantize
from convfind_networks.graph import Value
from convfind_networks.importing import axis_of
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    AveragePool,
    BinaryFunction,
    Concat,
    Dequantize,
    GlobalPool,
    IntegerMatMul,
    PoolKind,
    Quantize,
    Softmax,
    Where,
)

_REAL = np.dtype(np.float32)


def _real(node: OnnxNode, at: int) -> Value:
    """Return the real numbers of an input that is followed by its scale and zero point."""
    x, scale, zero = node.input(at), node.input(at + 1), node.optional(at + 2)
    return node.add(Dequantize(_REAL), *filter(None, (x, scale, zero)))


def _whole(node: OnnxNode, y: Value, at: int, like: Value) -> Value:
    """Return a result quantised by the scale and the zero point in two inputs."""
    scale, zero = node.input(at), zero_point(node, at + 1, like)
    return node.add(Quantize(zero.dtype), y, scale, zero)


def _of_two(function: BinaryFunction) -> OnnxOperator:
    """Return the function of QLinearAdd or QLinearMul."""

    def add(node: OnnxNode) -> Value:
        y = node.binary(function, _real(node, 0), _real(node, 3))
        return _whole(node, y, 6, node.input(0))

    return add


def _of_one(function: Callable[[OnnxNode, Value], Value]) -> OnnxOperator:
    """Return the function of an operator with one input, whose result has five inputs' scales."""

    def add(node: OnnxNode) -> Value:
        return _whole(node, function(node, _real(node, 0)), 3, node.input(0))

    return add


def _sigmoid(node: OnnxNode, x: Value) -> Value:
    return node.add(Activate(Activation(ActivationKind.SIGMOID)), x)


def _leaky_relu(node: OnnxNode, x: Value) -> Value:
    slope = node.real("alpha", 0.01)
    return node.add(Activate(Activation(ActivationKind.LEAKY_RELU, (slope,))), x)


def _softmax(node: OnnxNode, x: Value) -> Value:
    axis = axis_of(node.integer("axis", -1), x.type.rank)
    if node.integer("opset", 13) >= 13:
        return node.add(Softmax(axis), x)
    flat = node.reshape(x, *x.shape[:axis], prod(x.shape[axis:]))
    return node.reshape(node.add(Softmax(axis), flat), *x.shape)


def _average_pool(node: OnnxNode, x: Value) -> Value:
    def pooled(image: Value) -> Value:
        counts = bool(node.integer("count_include_pad", 0))
        return node.add(AveragePool(pooling_window(node, image), counts), image)

    return _channels_first(node, x, pooled)


def _global_average_pool(node: OnnxNode, x: Value) -> Value:
    return _channels_first(node, x, lambda one: node.add(GlobalPool(PoolKind.AVERAGE), one))


def _channels_first(node: OnnxNode, x: Value, function: Callable[[Value], Value]) -> Value:
    """Apply a function to an image that may lie channels last, as its result then does."""
    if not node.integer("channels_last", 0):
        return function(x)
    rank = x.type.rank
    y = function(node.transpose(x, 0, rank - 1, *range(1, rank - 1)))
    return node.transpose(y, 0, *range(2, rank), 1)


def concat(node: OnnxNode) -> Value:
    """QLinearConcat."""
    count = len(node.inputs)
    parts = [_real(node, at) for at in range(2, count, 3)]
    axis = axis_of(node.integer("axis", 0), parts[0].type.rank)
    return _whole(node, node.add(Concat(axis), *parts), 0, node.input(2))


def where(node: OnnxNode) -> Value:
    """QLinearWhere."""
    y = node.add(Where(), node.input(0), _real(node, 1), _real(node, 4))
    return _whole(node, y, 7, node.input(1))


def gemm(node: OnnxNode) -> Value:
    """QGemm: whole sums, then the result's scale and zero point, or real numbers."""
    a, b = (
        node.transpose(node.input(at), 1, 0) if node.integer(name, 0) else node.input(at)
        for at, name in ((0, "transA"), (3, "transB"))
    )
    zeros = zero_of_matrix(node, 2, a, -2), zero_of_matrix(node, 5, b, -1)
    sums = node.add(IntegerMatMul(), a, b, *zeros)
    if (bias := node.optional(6)) is not None:
        sums = node.plus(sums, bias)
    scale = node.times(node.input(4), node.reshape(node.input(1)))
    scale = node.times(scale, node.real("alpha", 1.0))
    real = node.times(node.cast(sums, _REAL), scale)
    return real if node.optional(7) is None else _whole(node, real, 7, node.input(0))


def matmul_to_real(node: OnnxNode) -> Value:
    """MatMulIntegerToFloat."""
    return _scaled_product(node, (node.input(0), node.input(2), node.optional(4)), (1, 3, 5, 6))


def matmul_of_real(node: OnnxNode) -> Value:
    """DynamicQuantizeMatMul: the left operand is quantised over the range that it has."""
    a, scale, zero = dynamic(node)
    return _scaled_product(node, (a, scale, zero), (1, 2, 3, 4))


def _scaled_product(
    node: OnnxNode, left: tuple[Value, Value, Value | None], right: tuple[int, int, int, int]
) -> Value:
    """Return a product of whole numbers as a real one.

    Args:
        node: adds the operations.
        left: the left operand, its scale, and its zero point.
        right: the inputs with the right operand, its scale, its zero point, and a bias.
    """
    (a, a_scale, a_zero), (b_at, scale_at, zero_at, bias_at) = left, right
    b = node.input(b_at)
    zero = node.const(0, like=a) if a_zero is None else node.reshape(a_zero)
    sums = node.add(IntegerMatMul(), a, b, zero, zero_of_matrix(node, zero_at, b, -1))
    scale = node.times(node.input(scale_at), node.reshape(a_scale))
    y = node.times(node.cast(sums, _REAL), scale)
    return y if (bias := node.optional(bias_at)) is None else node.plus(y, bias)


CONTRIBUTED: OnnxOperators = {
    "QLinearAdd": _of_two(BinaryFunction.ADD),
    "QLinearMul": _of_two(BinaryFunction.MUL),
    "QLinearSigmoid": _of_one(_sigmoid),
    "QLinearLeakyRelu": _of_one(_leaky_relu),
    "QLinearSoftmax": _of_one(_softmax),
    "QLinearAveragePool": _of_one(_average_pool),
    "QLinearGlobalAveragePool": _of_one(_global_average_pool),
    "QLinearConcat": concat,
    "QLinearWhere": where,
    "QGemm": gemm,
    "MatMulIntegerToFloat": matmul_to_real,
    "DynamicQuantizeMatMul": matmul_of_real,
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
}
