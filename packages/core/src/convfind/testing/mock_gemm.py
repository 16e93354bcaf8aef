"""The matrix products that a mock device's library computes, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.errors import LaunchError
from convfind.problem import Activation
from convfind.solver.recipe import GemmEpilogue, LibraryGemm, Matrix
from convfind.testing.tensors import Bytes
from convfind.types import DataType


def run_gemm(gemm: LibraryGemm, a: Bytes, b: Bytes, c: Bytes, *more: Bytes) -> None:
    """Compute a batch of products on memory that begins at its matrices, in their order.

    Raises:
        LaunchError: a matrix exceeds its memory.
    """
    left = _matrices(gemm.a, a, gemm.batch, *_stored(gemm.m, gemm.k, gemm.trans_a))
    right = _matrices(gemm.b, b, gemm.batch, *_stored(gemm.k, gemm.n, gemm.trans_b))
    result = _matrices(gemm.c, c, gemm.batch, gemm.m, gemm.n)
    epilogue = gemm.epilogue or GemmEpilogue()
    rest = iter(more)
    bias, z = None, result
    if epilogue.bias is not None:
        bias = _matrices(epilogue.bias, next(rest), gemm.batch, 1, gemm.n)
    if epilogue.z is not None:
        z = _matrices(epilogue.z, next(rest), gemm.batch, gemm.m, gemm.n)
    wide = np.int64 if gemm.c.dtype is DataType.INT32 else np.float64
    for member in range(gemm.batch):
        factors = [
            np.swapaxes(values[member], 0, 1 if transposed else 0).astype(wide)
            for values, transposed in ((left, gemm.trans_a), (right, gemm.trans_b))
        ]
        total = gemm.alpha * (factors[0] @ factors[1])
        if gemm.beta:
            total = total + gemm.beta * z[member].astype(wide)
        if bias is not None:
            total = total + bias[member].astype(wide)
        if epilogue.activation:
            total = Activation(epilogue.activation)(total)
        result[member] = total.astype(result.dtype)


def _stored(rows: int, columns: int, transposed: bool) -> tuple[int, int]:
    return (columns, rows) if transposed else (rows, columns)


def _matrices(
    matrix: Matrix, memory: Bytes, batch: int, rows: int, columns: int
) -> np.ndarray[Any, Any]:
    dtype = matrix.dtype.numpy
    elements = (batch - 1) * matrix.stride + (rows - 1) * matrix.row + columns
    if elements * dtype.itemsize > memory.size:
        msg = (
            f"matrix of {rows} x {columns} ends at byte {elements * dtype.itemsize} behind its "
            f"start, past the {memory.size} bytes of {matrix.memory}"
        )
        raise LaunchError(msg)
    strides = tuple(step * dtype.itemsize for step in (matrix.stride, matrix.row, 1))
    return np.ndarray((batch, rows, columns), dtype, memory.data, 0, strides)
