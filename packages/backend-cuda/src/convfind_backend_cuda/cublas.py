"""cuBLAS by ctypes: the few calls that matrix products need, with their C types.

Constants and signatures are those of cuBLAS's documented C interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_longlong, c_size_t, c_void_p
from functools import lru_cache

from convfind.backend_kit.library_gemm.scale import gemm_scale
from convfind.backend_kit.status import RuntimeFailure, StatusAdvice
from convfind.errors import BackendUnavailableError, DeviceError, LaunchError
from convfind.log import logger
from convfind.solver.recipe import LibraryGemm
from convfind.types import DataType
from convfind_backend_cuda.memory import CudaBuffer
from convfind_backend_cuda.queue import Queue

_INSTALL = "install it with: pip install nvidia-cublas"

_NO_TRANSPOSE, _TRANSPOSE = 0, 1
_DATATYPES = {
    DataType.FLOAT32: 0,
    DataType.FLOAT64: 1,
    DataType.FLOAT16: 2,
    DataType.INT8: 3,
    DataType.INT32: 10,
    DataType.BFLOAT16: 14,
}
_SUM_FLOAT32, _SUM_TF32 = 68, 77
_SUMS = {DataType.FLOAT64: 70, DataType.INT32: 72}
_USUAL_ALGORITHM = -1
#: Sums of parts are never rounded to 16 bits on the way.
_NO_REDUCED_PRECISION = 16
#: As much as cuBLAS's manual advises for Hopper; fixed, so that a graph may hold the products.
_WORKSPACE = 32 << 20
_STATUS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
}
_ADVICE = StatusAdvice(
    {
        "CUBLAS_STATUS_NOT_INITIALIZED": "free device memory, and check nvidia-smi",
        "CUBLAS_STATUS_ALLOC_FAILED": "free device memory or use a smaller problem",
        "CUBLAS_STATUS_ARCH_MISMATCH": "use another type: the device does not multiply this one",
        "CUBLAS_STATUS_EXECUTION_FAILED": (
            "an earlier kernel may have crashed the device; start a new process"
        ),
    },
    otherwise="use another solver, and look at cuBLAS's log (CUBLAS_LOGINFO_DBG=1)",
)
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
#: Calls a product with the addresses of a, b and c.
Product = Callable[[int, int, int], None]


@lru_cache(maxsize=1)
def load_library() -> ctypes.CDLL:
    """Load cuBLAS. Raises `BackendUnavailableError` saying what to install."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    except (ImportError, RuntimeError, OSError) as exc:
        reason = str(exc).partition("\n")[0]
        msg = f"cuBLAS does not load ({reason}); {_INSTALL}"
        raise BackendUnavailableError(msg) from exc
    for call, types in _SIGNATURES.items():
        try:
            getattr(library, call).argtypes = types
            getattr(library, call).restype = c_int
        except AttributeError as exc:
            msg = f"cuBLAS has no {call}; install a cuBLAS of CUDA 12 or later"
            raise BackendUnavailableError(msg) from exc
    return library


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
            _check(self._library.cublasCreate_v2(byref(self._handle)), "Create", doing)
            status = self._library.cublasSetMathMode(self._handle, _NO_REDUCED_PRECISION)
            _check(status, "SetMathMode", doing)

    def close(self) -> None:
        """Give the handle back. Calling it again does nothing."""
        if self._handle:
            with self._queue.context:
                status = self._library.cublasDestroy_v2(self._handle)
            self._handle = c_void_p()
            del self._workspace
            _check(status, "Destroy", "closing cuBLAS")

    def product(self, gemm: LibraryGemm) -> Product:
        """Prepare a product. cuBLAS counts by columns, so it computes the transpose: b * a."""
        alpha = gemm_scale(gemm.alpha, gemm.c.dtype)
        beta = gemm_scale(gemm.beta, gemm.c.dtype)
        kind, result = _DATATYPES[gemm.a.dtype], _DATATYPES[gemm.c.dtype]
        sums = _SUMS.get(gemm.c.dtype, _SUM_FLOAT32)
        if gemm.allow_tf32 and gemm.a.dtype is DataType.FLOAT32:
            sums = _SUM_TF32
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
        end = (gemm.batch, sums, _USUAL_ALGORITHM)
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
                _check(status, "GemmStridedBatchedEx", doing, LaunchError)

        return run

    def _use(self, stream: int) -> None:
        """Work on a stream from now on. cuBLAS forgets its workspace with the stream."""
        doing = "choosing cuBLAS's stream"
        _check(self._library.cublasSetStream_v2(self._handle, stream), "SetStream", doing)
        address = self._workspace.address
        status = self._library.cublasSetWorkspace_v2(self._handle, address, _WORKSPACE)
        _check(status, "SetWorkspace", doing)
        self._stream = stream


def _check(status: int, call: str, doing: str, kind: RuntimeFailure = DeviceError) -> None:
    if status:
        name = _STATUS.get(status, f"CUBLAS_STATUS {status}")
        raise _ADVICE.error(kind, doing, name, f"cublas{call}")
