"""A library's matrix product, made ready: a call looks up the buffers' addresses and enqueues."""

from __future__ import annotations

from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import LibraryGemm, Matrix
from convfind_backend_hip.memory import HipBuffer
from convfind_backend_hip.rocblas import RocBlas


class ReadyGemm:
    """A `LibraryGemm` for one handle of rocBLAS."""

    __slots__ = ("_a", "_b", "_c", "_call", "_ends", "name")

    def __init__(self, library: RocBlas, gemm: LibraryGemm) -> None:
        self.name = f"product of {gemm.m} x {gemm.k} and {gemm.k} x {gemm.n}, {gemm.batch} times,"
        self._a, self._b, self._c = gemm.a, gemm.b, gemm.c
        self._ends = (
            _end(gemm.a, gemm.batch, *_stored(gemm.m, gemm.k, gemm.trans_a)),
            _end(gemm.b, gemm.batch, *_stored(gemm.k, gemm.n, gemm.trans_b)),
            _end(gemm.c, gemm.batch, gemm.m, gemm.n),
        )
        self._call = library.product(gemm)

    def enqueue(self, args: InvokeArgs) -> None:
        """Enqueue the product."""
        a = self._address(args, self._a, self._ends[0])
        b = self._address(args, self._b, self._ends[1])
        self._call(a, b, self._address(args, self._c, self._ends[2]))

    def _address(self, args: InvokeArgs, matrix: Matrix, end: int) -> int:
        buffer: HipBuffer = getattr(args, matrix.memory)
        if end > buffer.block.size:
            size = buffer.block.size
            msg = f"{self.name} ends at byte {end} of {matrix.memory}, past its {size} bytes"
            raise LaunchError(msg)
        return buffer.address + matrix.offset


def _stored(rows: int, columns: int, transposed: bool) -> tuple[int, int]:
    return (columns, rows) if transposed else (rows, columns)


def _end(matrix: Matrix, batch: int, rows: int, columns: int) -> int:
    elements = (batch - 1) * matrix.stride + (rows - 1) * matrix.row + columns
    return matrix.offset + elements * matrix.dtype.numpy.itemsize
