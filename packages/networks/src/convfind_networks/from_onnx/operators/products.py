"""Gemm, MatMul and their quantised kin, Einsum."""

from __future__ import annotations

import numpy as np

from convfind_networks.einsum import einsum
from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.from_onnx.operators.convolution import zero_point
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
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


def zero_of_matrix(node: OnnxNode, index: int, of: Value, axis: int) -> Value:
    """Return a zero point in a shape that goes with a matrix: one number, or one for each slice."""
    return _along(node, zero_point(node, index, of), of, axis)


def _scale(node: OnnxNode, scale: Value, of: Value, axis: int) -> Value:
    return _along(node, node.cast(scale, np.float32), of, axis)


def _along(node: OnnxNode, parameter: Value, of: Value, axis: int) -> Value:
    """Return a parameter in a shape that goes with a matrix and with products of it."""
    if parameter.type.rank == 1 and parameter.type.elements > 1:
        shape = [1] * of.type.rank
        shape[axis] = parameter.type.elements
        return node.reshape(parameter, *shape)
    return node.reshape(parameter) if parameter.type.elements == 1 else parameter


def matmul_integer(node: OnnxNode) -> Value:
    """MatMulInteger."""
    a, b = node.input(0), node.input(1)
    return node.add(
        IntegerMatMul(), a, b, zero_of_matrix(node, 2, a, -2), zero_of_matrix(node, 3, b, -1)
    )


def matmul_quantized(node: OnnxNode) -> Value:
    """QLinearMatMul: whole sums, then the result's scale and zero point."""
    a, a_scale, _, b, b_scale, _, y_scale, y_zero = node.values()[:8]
    sums = node.add(
        IntegerMatMul(), a, b, zero_of_matrix(node, 2, a, -2), zero_of_matrix(node, 5, b, -1)
    )
    if y_scale.type.elements != 1:
        raise NotSupported("a scale for each row or column of the result")
    scale = node.times(_scale(node, a_scale, a, -2), _scale(node, b_scale, b, -1))
    real = node.times(node.cast(sums, np.float32), scale)
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
