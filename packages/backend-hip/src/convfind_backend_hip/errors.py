"""Checks every HIP status and raises it by name: which call, which status, and what to do."""

from __future__ import annotations

from typing import Any

from convfind.backend_kit.status import RuntimeFailure, StatusAdvice
from convfind.errors import DeviceError, LaunchError

_ADVICE = StatusAdvice(
    {
        "hipErrorOutOfMemory": "free device memory or use a smaller problem",
        "hipErrorInvalidValue": "check sizes, local memory and arguments of the kernel",
        "hipErrorInvalidConfiguration": "use smaller work-groups",
        "hipErrorLaunchOutOfResources": "use smaller work-groups or less local memory",
        "hipErrorNoBinaryForGpu": "compile the kernel for this device again",
        "hipErrorSharedObjectInitFailed": "compile the kernel for this device again",
        "hipErrorInvalidImage": "compile the kernel for this device again",
        "hipErrorNotFound": "name a kernel that the program has",
        "hipErrorInvalidDeviceFunction": "compile the kernel for this device again",
        "hipErrorNoDevice": "check the driver (rocminfo) and the permission to use /dev/kfd",
        "hipErrorInvalidDevice": "check the driver (rocminfo) and HIP_VISIBLE_DEVICES",
        "hipErrorNotInitialized": "check the driver (rocminfo)",
        "hipErrorIllegalAddress": "a kernel went outside its buffers; start a new process",
        "hipErrorLaunchFailure": "a kernel crashed the device; start a new process",
        "hipErrorECCNotCorrectable": "the device's memory is failing; start a new process",
        "hipErrorInvalidHandle": "the stream or event is gone; open the device again",
        "hipErrorContextIsDestroyed": "the stream or event is gone; open the device again",
        "hipErrorInsufficientDriver": "install a driver as new as the ROCm that is installed",
    },
    otherwise="start a new process, and if it stays look at the driver's log (dmesg, rocminfo)",
)


def checked(
    result: tuple[Any, ...],
    call: str,
    doing: str,
    kind: RuntimeFailure = DeviceError,
) -> Any:
    """Return what a call of hip-python returned behind its status; None where that is nothing.

    ``doing`` is what the call is for, with its values. Raises ``kind`` where the call failed.
    """
    status, *values = result
    if status:
        raise failure(status, call, doing, kind)
    return values[0] if values else None


def failure(status: Any, call: str, doing: str, kind: RuntimeFailure) -> DeviceError | LaunchError:
    """Return the error for a status that is no success."""
    return _ADVICE.error(kind, doing, getattr(status, "name", str(status)), call)
