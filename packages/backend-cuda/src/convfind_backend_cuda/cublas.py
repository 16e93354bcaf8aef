"""cuBLAS by ctypes: the few calls that matrix products need, with their C types.

Constants and signatures are those of cuBLAS's documented C interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_longlong, c_size_t, c_void_p
from functools import lru_cache

from convfind.backend_kit.library_gemm.scale import gemm_scale
from convfind.errors import BackendUnavailableError, LaunchError
from convfind.log import logger
from convfind.solver.recipe import LibraryGemm
from convfind_backend_cuda.blas_library import DATATYPES, check, load, sum_type
from convfind_backend_cuda.cublaslt import FusedProduct
from convfind_backend_cuda.memory import CudaBuffer
from convfind_backend_cuda.queue import Queue

_NO_TRANSPOSE, _TRANSPOSE = 0, 1
_USUAL_ALGORITHM = -1
#: Sums of parts are never rounded to 16 bits on the way.
_NO_REDUCED_PRECISION = 16
#: As much as cuBLAS's manual advises for Hopper; fixed, so that a graph may hold the products.
_WORKSPACE = 32 << 20
_SIGNATURES = {
    "cublasCreate_v2": (POINTER(c_void_p),),
    "cublasDestroy_v2": (c_void_p,),
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasSetWorkspace_v2": (c_void_p, c_void_p, c_size_t),
    "cublasSetMathMode": (c_void_p, c_int),
    "cublasGemmStridedBatchedEx": (
        *(c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p),
        *(c_void_p, c_int, c_int, c_longlong, c_void_p, c_int, c_int, c_longlong),
        *(c_void_p, c_void_p, c_int, c_int, c_longlong, c_int, c_int, c_int),
    ),
}
#: Calls a product with the addresses of its matrices: a, b, c, and those of an epilogue.
Product = Callable[..., None]


@lru_cache(maxsize=1)
def load_library() -> ctypes.CDLL:
    """Load cuBLAS. Raises `BackendUnavailableError` saying what to install."""
    return load("cublas", _SIGNATURES)


def has_library() -> bool:
    """True where cuBLAS loads."""
    try:
        load_library()
    except BackendUnavailableError as exc:
        logger.info("no cuda-gemm solvers: %s", exc)
        return False
    return True


class CuBlas:
    """A handle of cuBLAS on a device's queue, with a workspace from the device's own memory."""

    def __init__(self, queue: Queue, allocate: Callable[[int], CudaBuffer]) -> None:
        self._library = load_library()
        self._queue = queue
        self._workspace = allocate(_WORKSPACE)
        self._handle = c_void_p()
        self._stream: int | None = None
        doing = "opening cuBLAS"
        with queue.context:
            check(self._library.cublasCreate_v2(byref(self._handle)), "Create", doing)
            status = self._library.cublasSetMathMode(self._handle, _NO_REDUCED_PRECISION)
            check(status, "SetMathMode", doing)

    def close(self) -> None:
        """Give the handle back. Calling it again does nothing."""
        if self._handle:
            with self._queue.context:
                status = self._library.cublasDestroy_v2(self._handle)
            self._handle = c_void_p()
            del self._workspace
            check(status, "Destroy", "closing cuBLAS")

    def product(self, gemm: LibraryGemm) -> Product:
        """Prepare a product. cuBLAS counts by columns, so it computes the transpose: b * a.

        One with an epilogue is cuBLASLt's. Raises `LaunchError` where that has no algorithm.
        """
        if gemm.epilogue is not None:
            return self._fused(gemm)
        alpha = gemm_scale(gemm.alpha, gemm.c.dtype)
        beta = gemm_scale(gemm.beta, gemm.c.dtype)
        kind, result = DATATYPES[gemm.a.dtype], DATATYPES[gemm.c.dtype]
        shape = (
            _TRANSPOSE if gemm.trans_b else _NO_TRANSPOSE,
            _TRANSPOSE if gemm.trans_a else _NO_TRANSPOSE,
            *(gemm.n, gemm.m, gemm.k),
        )
        left, right, into = (
            (kind, gemm.b.row, gemm.b.stride),
            (kind, gemm.a.row, gemm.a.stride),
            (result, gemm.c.row, gemm.c.stride),
        )
        end = (gemm.batch, sum_type(gemm)[0], _USUAL_ALGORITHM)
        scales = byref(alpha), byref(beta)
        call = self._library.cublasGemmStridedBatchedEx
        queue = self._queue
        doing = f"product of {gemm.m} x {gemm.k} and {gemm.k} x {gemm.n} ({gemm.a.dtype})"

        def run(a: int, b: int, c: int) -> None:
            with queue.context:
                if self._stream != queue.stream:
                    self._use(queue.stream)
                status = call(
                    *(self._handle, *shape, scales[0], b, *left, a, *right),
                    *(scales[1], c, *into, *end),
                )
            if status:
                check(status, "GemmStridedBatchedEx", doing, LaunchError)

        return run

    def _fused(self, gemm: LibraryGemm) -> Product:
        """Prepare a product with an epilogue, in the same workspace: the queue has one order."""
        queue = self._queue
        with queue.context:
            product = FusedProduct(self._handle, gemm, _WORKSPACE)

        def run(*addresses: int) -> None:
            with queue.context:
                product.enqueue(queue.stream, self._workspace.address, *addresses)

        return run

    def _use(self, stream: int) -> None:
        """Work on a stream from now on. cuBLAS forgets its workspace with the stream."""
        doing = "choosing cuBLAS's stream"
        check(self._library.cublasSetStream_v2(self._handle, stream), "SetStream", doing)
        address = self._workspace.address
        status = self._library.cublasSetWorkspace_v2(self._handle, address, _WORKSPACE)
        check(status, "SetWorkspace", doing)
        self._stream = stream
