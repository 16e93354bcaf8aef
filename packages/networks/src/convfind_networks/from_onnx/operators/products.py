"""Gemm, MatMul and their quantised kin, Einsum."""

from __future__ import annotations

import numpy as np

from convfind_networks.einsum import einsum
from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.from_onnx.operators.convolution import zero_point
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Dequantize,
    Epilogue,
    IntegerMatMul,
    Linear,
    MatMul,
    Quantize,
)


def gemm(node: OnnxNode) -> Value:
    """Gemm: ``alpha * a @ b + beta * c``."""
    a, b, c = node.input(0), node.input(1), node.optional(2)
    if a.type.rank != 2 or b.type.rank != 2:
        raise NotSupported("its operands are no matrices")
    if node.integer("transA", 0):
        a = node.transpose(a, 1, 0)
    if not node.integer("transB", 0):
        b = node.transpose(b, 1, 0)
    # Weights are constant, so that scaling them is done when it is written.
    b = node.times(b, node.real("alpha", 1.0))
    if c is None:
        return node.add(Linear(), a, b)
    c = node.times(c, node.real("beta", 1.0))
    if c.type.elements == b.shape[0] and c.shape[-1:] == b.shape[:1]:
        return node.add(Linear(Epilogue(bias=True)), a, b, node.reshape(c, b.shape[0]))
    return node.plus(node.add(Linear(), a, b), c)


def matmul(node: OnnxNode) -> Value:
    """MatMul."""
    return node.add(MatMul(), node.input(0), node.input(1))


def _zero(node: OnnxNode, index: int, of: Value, axis: int) -> Value:
    """Return a zero point in a shape that goes with a matrix: one number, or one for each slice."""
    zero = zero_point(node, index, of)
    if zero.type.rank == 1 and zero.type.elements > 1:
        shape = [1] * of.type.rank
        shape[axis] = zero.type.elements
        return node.reshape(zero, *shape)
    return node.reshape(zero) if zero.type.elements == 1 else zero


def matmul_integer(node: OnnxNode) -> Value:
    """MatMulInteger."""
    a, b = node.input(0), node.input(1)
    return node.add(IntegerMatMul(), a, b, _zero(node, 2, a, -2), _zero(node, 3, b, -1))


def matmul_quantized(node: OnnxNode) -> Value:
    """QLinearMatMul: whole sums, then the result's scale and zero point."""
    a, a_scale, _, b, b_scale, _, y_scale, y_zero = node.values()[:8]
    sums = node.add(IntegerMatMul(), a, b, _zero(node, 2, a, -2), _zero(node, 5, b, -1))
    if a_scale.type.elements != 1 or b_scale.type.elements != 1 or y_scale.type.elements != 1:
        raise NotSupported("a scale for each row or column")
    scale = node.times(node.cast(a_scale, np.float32), node.cast(b_scale, np.float32))
    real = node.add(Dequantize(np.dtype(np.float32)), sums, node.reshape(scale))
    y_scale, y_zero = node.reshape(node.cast(y_scale, np.float32)), node.reshape(y_zero)
    return node.add(Quantize(y_zero.dtype), real, y_scale, y_zero)


def sum_of_products(node: OnnxNode) -> Value:
    """Einsum."""
    return einsum(node, node.word("equation", ""), node.values())


OPERATORS: OnnxOperators = {
    "Einsum": sum_of_products,
    "Gemm": gemm,
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": matmul_quantized,
}
