"""The common part of cuBLAS and cuBLASLt: how they load, their types, and their statuses."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int
from typing import Any, Final

from convfind.backend_kit.status import RuntimeFailure, StatusAdvice
from convfind.errors import BackendUnavailableError, DeviceError
from convfind.solver.recipe import LibraryGemm
from convfind.types import DataType

_INSTALL = "install it with: pip install nvidia-cublas"

#: cudaDataType_t of elements.
DATATYPES: Final = {
    DataType.FLOAT32: 0,
    DataType.FLOAT64: 1,
    DataType.FLOAT16: 2,
    DataType.INT8: 3,
    DataType.INT32: 10,
    DataType.BFLOAT16: 14,
}
_SUM_FLOAT32, _SUM_TF32 = 68, 77
_SUMS = {DataType.FLOAT64: 70, DataType.INT32: 72}
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


def load(name: str, signatures: Mapping[str, tuple[Any, ...]]) -> ctypes.CDLL:
    """Load a library of cuBLAS's package. Raises `BackendUnavailableError` with what to install."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except (ImportError, RuntimeError, OSError) as exc:
        reason = str(exc).partition("\n")[0]
        msg = f"cuBLAS does not load ({reason}); {_INSTALL}"
        raise BackendUnavailableError(msg) from exc
    for call, types in signatures.items():
        try:
            getattr(library, call).argtypes = types
            getattr(library, call).restype = c_int
        except AttributeError as exc:
            msg = f"cuBLAS has no {call}; install a cuBLAS of CUDA 12 or later"
            raise BackendUnavailableError(msg) from exc
    return library


def sum_type(gemm: LibraryGemm) -> tuple[int, int]:
    """Return the types of a product's sums, a cublasComputeType_t, and of its factors."""
    if gemm.allow_tf32 and gemm.a.dtype is DataType.FLOAT32:
        return _SUM_TF32, DATATYPES[DataType.FLOAT32]
    result = gemm.c.dtype
    factors = result if result in _SUMS else DataType.FLOAT32
    return _SUMS.get(result, _SUM_FLOAT32), DATATYPES[factors]


def check(status: int, call: str, doing: str, kind: RuntimeFailure = DeviceError) -> None:
    """Raise an error with the call's name, and what to do, for a status that is none of success."""
    if status:
        name = _STATUS.get(status, f"CUBLAS_STATUS {status}")
        raise _ADVICE.error(kind, doing, name, f"cublas{call}")
