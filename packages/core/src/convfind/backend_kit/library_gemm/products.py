"""A product over a two-level batch as the calls of a library that knows one level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from convfind.kit.gemm_lowering.product import Gemm, Operand
from convfind.problem import ConvProblem
from convfind.solver.recipe import GemmEpilogue, LibraryGemm, Matrix
from convfind.types import DataType


def is_one_call(gemm: Gemm) -> bool:
    """Return whether one stride leads from each product to the next."""
    return 1 in (gemm.inner, gemm.outer) or all(
        operand.outer == gemm.inner * operand.inner for operand in (gemm.a, gemm.b, gemm.c)
    )


def library_gemms(gemm: Gemm, problem: ConvProblem, result: DataType) -> Iterator[LibraryGemm]:
    """Yield the calls for independent products, as few as their strides allow."""
    if gemm.inner == 1:
        yield _call(gemm, problem, result, gemm.outer, "outer")
    elif is_one_call(gemm):
        yield _call(gemm, problem, result, gemm.batch, "inner")
    elif gemm.outer < gemm.inner:
        for index in range(gemm.outer):
            yield _call(_moved(gemm, index, 0), problem, result, gemm.inner, "inner")
    else:
        for index in range(gemm.inner):
            yield _call(_moved(gemm, 0, index), problem, result, gemm.outer, "outer")


def summing_gemms(
    gemm: Gemm, problem: ConvProblem, result: DataType, beta: float
) -> Iterator[LibraryGemm]:
    """Yield the calls that add the products of the outer batch up, one after the other.

    ``beta`` is for what was in the result before.
    """
    for index in range(gemm.outer):
        piece = replace(_moved(gemm, index, 0), beta=beta if index == 0 else 1.0)
        yield _call(piece, problem, result, gemm.inner, "inner")


def _call(
    gemm: Gemm, problem: ConvProblem, result: DataType, batch: int, level: str
) -> LibraryGemm:
    def matrix(operand: Operand, dtype: DataType) -> Matrix:
        start = operand.memory.offset + operand.offset * dtype.numpy.itemsize
        stride = operand.outer if level == "outer" else operand.inner
        return Matrix(operand.memory.memory, dtype, operand.ld, start, stride if batch > 1 else 0)

    c = matrix(gemm.c, result)
    return LibraryGemm(
        *(gemm.m, gemm.n, gemm.k),
        matrix(gemm.a, problem.dtype),
        matrix(gemm.b, problem.dtype),
        c,
        gemm.trans_a,
        gemm.trans_b,
        batch,
        gemm.alpha,
        gemm.beta,
        allow_tf32=problem.allow_tf32,
        deterministic=problem.deterministic,
        epilogue=_epilogue(gemm, c, batch),
    )


def _epilogue(gemm: Gemm, c: Matrix, batch: int) -> GemmEpilogue | None:
    """Return what else becomes of products, of which a batch is one for each group."""
    rest = gemm.rest
    bias = z = None
    if rest.bias is not None:
        bias = Matrix("bias", rest.bias, gemm.n, 0, gemm.n if batch > 1 else 0)
    if rest.z is not None:
        z = replace(c, memory="z")
    activation = "" if rest.activation is None else rest.activation.kind.value
    if bias is None and z is None and not activation:
        return None
    return GemmEpilogue(bias, z, activation)


def _moved(gemm: Gemm, outer: int, inner: int) -> Gemm:
    """The products from one place in the batch on."""

    def moved(operand: Operand) -> Operand:
        step = outer * operand.outer + inner * operand.inner
        return replace(operand, offset=operand.offset + step)

    return replace(gemm, a=moved(gemm.a), b=moved(gemm.b), c=moved(gemm.c))
