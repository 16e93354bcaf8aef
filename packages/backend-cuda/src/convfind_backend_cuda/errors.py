"""Checks every status of CUDA and raises it by name: which call, which status, what to do."""

from __future__ import annotations

from typing import Any

from convfind.backend_kit.status import RuntimeFailure, StatusAdvice
from convfind.errors import DeviceError, LaunchError

_CAPTURE = "finish the capture of the graph first, or do this before it"
_CRASHED = "a kernel crashed, and CUDA refuses this process all further work; start a new process"
_OTHER_BINARY = "compile the kernel for this device again"

_ADVICE = StatusAdvice(
    {
        "CUDA_ERROR_OUT_OF_MEMORY": "free device memory or use a smaller problem",
        "CUDA_ERROR_INVALID_VALUE": "check sizes, local memory and arguments of the kernel",
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "use smaller work-groups or less local memory",
        "CUDA_ERROR_NO_BINARY_FOR_GPU": _OTHER_BINARY,
        "CUDA_ERROR_INVALID_IMAGE": _OTHER_BINARY,
        "CUDA_ERROR_INVALID_SOURCE": _OTHER_BINARY,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": (
            "use the NVRTC of a CUDA that is no newer than the driver's"
        ),
        "CUDA_ERROR_NOT_FOUND": "name a kernel that the program has",
        "CUDA_ERROR_NO_DEVICE": "check nvidia-smi and CUDA_VISIBLE_DEVICES",
        "CUDA_ERROR_INVALID_DEVICE": "check nvidia-smi and CUDA_VISIBLE_DEVICES",
        "CUDA_ERROR_NOT_INITIALIZED": "check nvidia-smi; after a fork, start a new process",
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "restart after the driver's update",
        "CUDA_ERROR_ILLEGAL_ADDRESS": f"a kernel went outside its buffers: {_CRASHED}",
        "CUDA_ERROR_MISALIGNED_ADDRESS": _CRASHED,
        "CUDA_ERROR_ILLEGAL_INSTRUCTION": _CRASHED,
        "CUDA_ERROR_INVALID_ADDRESS_SPACE": _CRASHED,
        "CUDA_ERROR_INVALID_PC": _CRASHED,
        "CUDA_ERROR_HARDWARE_STACK_ERROR": _CRASHED,
        "CUDA_ERROR_ASSERT": _CRASHED,
        "CUDA_ERROR_LAUNCH_FAILED": _CRASHED,
        "CUDA_ERROR_LAUNCH_TIMEOUT": _CRASHED,
        "CUDA_ERROR_ECC_UNCORRECTABLE": "the device's memory is failing; start a new process",
        "CUDA_ERROR_INVALID_HANDLE": "the stream or event is gone; open the device again",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED": "the device was reset; start a new process",
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": _CAPTURE,
        "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": _CAPTURE,
        "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": _CAPTURE,
        "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": _CAPTURE,
    },
    otherwise="start a new process, and if it stays look at the driver's log (dmesg, nvidia-smi)",
)


def checked(
    result: tuple[Any, ...], call: str, doing: str, kind: RuntimeFailure = DeviceError
) -> Any:
    """Return what a call of the driver returned behind its status; None where that is nothing.

    ``doing`` is what the call is for, with its values. Raises ``kind`` where the call failed.
    """
    status, *values = result
    if status:
        raise failure(status, call, doing, kind)
    return values[0] if values else None


def failure(status: Any, call: str, doing: str, kind: RuntimeFailure) -> DeviceError | LaunchError:
    """Return the error for a status, an enumerator or its number, that is no success."""
    from cuda.bindings import driver

    try:
        name = driver.CUresult(status).name
    except ValueError:
        name = str(status)
    return _ADVICE.error(kind, doing, name, call)
