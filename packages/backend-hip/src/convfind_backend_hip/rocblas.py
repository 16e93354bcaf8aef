"""rocBLAS by ctypes: the few calls that matrix products need, with their C types.

Constants and signatures are those of rocBLAS's documented C interface.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from functools import lru_cache
from pathlib import Path

from convfind.backend_kit.library_gemm.scale import gemm_scale
from convfind.backend_kit.ready import refuse_epilogue
from convfind.backend_kit.status import RuntimeFailure, StatusAdvice
from convfind.errors import BackendUnavailableError, DeviceError, LaunchError
from convfind.log import logger
from convfind.solver.recipe import LibraryGemm
from convfind.types import DataType
from convfind_backend_hip.memory import HipBuffer

_NAMES = ("librocblas.so", "librocblas.so.5", "librocblas.so.4", "librocblas.so.3")
_INSTALL = "install rocBLAS (ROCm's package rocblas) and set ROCM_PATH to ROCm's folder"

_NO_TRANSPOSE, _TRANSPOSE = 111, 112
_DATATYPES = {
    DataType.FLOAT16: 150,
    DataType.FLOAT32: 151,
    DataType.FLOAT64: 152,
    DataType.INT8: 160,
    DataType.INT32: 162,
    DataType.BFLOAT16: 168,
}
_STANDARD_ALGORITHM, _NO_SOLUTION_INDEX, _NO_FLAGS = 0, 0, 0
_DEFAULT_MATH, _TF32_MATH = 0, 1
_NO_ATOMICS, _ATOMICS = 0, 1
_STATUS = (
    *("success", "invalid_handle", "not_implemented", "invalid_pointer", "invalid_size"),
    *("memory_error", "internal_error", "perf_degraded", "size_query_mismatch"),
    *("size_increased", "size_unchanged", "invalid_value", "continue", "check_numerics_fail"),
    *("excluded_from_build", "arch_mismatch"),
)
_ADVICE = StatusAdvice(
    {
        "rocblas_status_not_implemented": "use another type or a newer rocBLAS",
        "rocblas_status_memory_error": "free device memory or use a smaller problem",
        "rocblas_status_internal_error": (
            "an earlier kernel may have crashed the device; start a new process"
        ),
        "rocblas_status_excluded_from_build": "install a complete rocBLAS",
        "rocblas_status_arch_mismatch": "install a rocBLAS that knows the device",
        "rocblas_status_invalid_handle": "open the device again",
    },
    otherwise="use another solver, and look at rocBLAS's log (ROCBLAS_LAYER=1)",
)
#: The product is there; it took longer for want of memory.
_SLOW = _STATUS.index("perf_degraded")
_MATRIX = (c_void_p, c_int, c_int32, c_int64)  # address, type, leading dimension, stride
_SIGNATURES = {
    "rocblas_create_handle": (POINTER(c_void_p),),
    "rocblas_destroy_handle": (c_void_p,),
    "rocblas_set_stream": (c_void_p, c_void_p),
    "rocblas_start_device_memory_size_query": (c_void_p,),
    "rocblas_stop_device_memory_size_query": (c_void_p, POINTER(c_size_t)),
    "rocblas_set_workspace": (c_void_p, c_void_p, c_size_t),
    "rocblas_set_math_mode": (c_void_p, c_int),
    "rocblas_set_atomics_mode": (c_void_p, c_int),
    "rocblas_gemm_strided_batched_ex": (
        *(c_void_p, c_int, c_int, c_int32, c_int32, c_int32, c_void_p),
        *(*_MATRIX, *_MATRIX, c_void_p, *_MATRIX, *_MATRIX),
        *(c_int32, c_int, c_int, c_int32, c_uint32),
    ),
}
#: Calls a product with the addresses of a, b and c.
Product = Callable[[int, int, int], None]


@lru_cache(maxsize=1)
def load_library() -> ctypes.CDLL:
    """Load rocBLAS. Raises `BackendUnavailableError` saying what to install."""
    folder = os.environ.get("ROCM_PATH") or "/opt/rocm"
    reasons = []
    for name in (str(Path(folder) / "lib" / _NAMES[0]), *_NAMES):
        try:
            library = ctypes.CDLL(name)
        except OSError as exc:
            reasons.append(str(exc))
            continue
        for call, types in _SIGNATURES.items():
            try:
                getattr(library, call).argtypes = types
                getattr(library, call).restype = c_int
            except AttributeError as exc:
                msg = f"{name} has no {call}; install a rocBLAS from ROCm 5.7 on"
                raise BackendUnavailableError(msg) from exc
        return library
    msg = f"rocBLAS does not load ({reasons[-1]}); {_INSTALL}"
    raise BackendUnavailableError(msg)


def has_library() -> bool:
    """True where rocBLAS loads."""
    try:
        load_library()
    except BackendUnavailableError as exc:
        logger.info("no hip-gemm solvers: %s", exc)
        return False
    return True


class RocBlas:
    """A handle of rocBLAS on one stream, with a workspace from the device's own memory.

    The workspace is as large as the greediest product asks for; of a product that asks for nothing
    ahead, rocBLAS allocates what it needs itself.
    """

    def __init__(self, stream: int, allocate: Callable[[int], HipBuffer]) -> None:
        self._library = load_library()
        self._allocate = allocate
        self._workspace: HipBuffer | None = None
        self._handle = c_void_p()
        doing = "opening rocBLAS"
        _check(self._library.rocblas_create_handle(byref(self._handle)), "create_handle", doing)
        _check(self._library.rocblas_set_stream(self._handle, stream), "set_stream", doing)
        self._modes: tuple[int, int] | None = None

    def close(self) -> None:
        """Give the handle back. Calling it again does nothing."""
        if self._handle:
            status = self._library.rocblas_destroy_handle(self._handle)
            self._handle = c_void_p()
            self._workspace = None
            _check(status, "destroy_handle", "closing rocBLAS")

    def product(self, gemm: LibraryGemm) -> Product:
        """Make a product ready. rocBLAS counts by columns, so it computes the transpose: b * a.

        Raises `LaunchError` for an epilogue, which rocBLAS's products do not have.
        """
        refuse_epilogue(gemm)
        is_own = gemm.c.dtype in (DataType.INT32, DataType.FLOAT64)
        compute = _DATATYPES[gemm.c.dtype if is_own else DataType.FLOAT32]
        alpha = gemm_scale(gemm.alpha, gemm.c.dtype)
        beta = gemm_scale(gemm.beta, gemm.c.dtype)
        kind = _DATATYPES[gemm.a.dtype]
        result = _DATATYPES[gemm.c.dtype]
        left, right, into = (
            (kind, gemm.b.row, gemm.b.stride),
            (kind, gemm.a.row, gemm.a.stride),
            (result, gemm.c.row, gemm.c.stride),
        )
        shape = (
            _TRANSPOSE if gemm.trans_b else _NO_TRANSPOSE,
            _TRANSPOSE if gemm.trans_a else _NO_TRANSPOSE,
            *(gemm.n, gemm.m, gemm.k),
        )
        end = (gemm.batch, compute, _STANDARD_ALGORITHM, _NO_SOLUTION_INDEX, _NO_FLAGS)
        modes = (
            _TF32_MATH if gemm.allow_tf32 else _DEFAULT_MATH,
            _NO_ATOMICS if gemm.deterministic else _ATOMICS,
        )
        scales = byref(alpha), byref(beta)
        call = self._library.rocblas_gemm_strided_batched_ex
        doing = f"product of {gemm.m} x {gemm.k} and {gemm.k} x {gemm.n} ({gemm.a.dtype})"

        def enqueue(a: int, b: int, c: int) -> int:
            status: int = call(
                *(self._handle, *shape, scales[0], b, *left, a, *right, scales[1]),
                *(c, *into, c, *into, *end),
            )
            return status

        def run(a: int, b: int, c: int) -> None:
            if self._modes != modes:
                self._set_modes(*modes)
            status = enqueue(a, b, c)
            if status and status != _SLOW:
                _check(status, "gemm_strided_batched_ex", doing, LaunchError)

        self._set_modes(*modes)
        self._reserve(lambda: enqueue(0, 0, 0))
        return run

    def _reserve(self, ask: Callable[[], int]) -> None:
        """Give rocBLAS the workspace that a call needs, which only asks for it meanwhile."""
        doing = "asking rocBLAS for the size of its workspace"
        size = c_size_t()
        started = self._library.rocblas_start_device_memory_size_query(self._handle)
        _check(started, "start_device_memory_size_query", doing)
        ask()  # its status says whether the size has grown
        stopped = self._library.rocblas_stop_device_memory_size_query(self._handle, byref(size))
        _check(stopped, "stop_device_memory_size_query", doing)
        if size.value <= (0 if self._workspace is None else self._workspace.size):
            return
        larger = self._allocate(size.value)
        address = larger.address
        status = self._library.rocblas_set_workspace(self._handle, address, larger.size)
        _check(status, "set_workspace", f"workspace of {larger.size} bytes for rocBLAS")
        # The one before goes back to a pool whose next user comes after it in the stream.
        self._workspace = larger

    def _set_modes(self, math: int, atomics: int) -> None:
        doing = "choosing rocBLAS's modes"
        _check(self._library.rocblas_set_math_mode(self._handle, math), "set_math_mode", doing)
        status = self._library.rocblas_set_atomics_mode(self._handle, atomics)
        _check(status, "set_atomics_mode", doing)
        self._modes = math, atomics


def _check(status: int, call: str, doing: str, kind: RuntimeFailure = DeviceError) -> None:
    if status:
        name = _STATUS[status] if status < len(_STATUS) else str(status)
        raise _ADVICE.error(kind, doing, f"rocblas_status_{name}", f"rocblas_{call}")
