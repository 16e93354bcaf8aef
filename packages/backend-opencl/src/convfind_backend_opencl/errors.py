"""Maps what pyopencl raises to convfind's errors: the status by name, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyopencl as cl

from convfind.backend_kit.status import RuntimeFailure, StatusAdvice
from convfind.errors import DeviceError, LaunchError

_STATUS = re.compile(r"failed: ([A-Z][A-Z_0-9]+|<[^>]+>)")
_ADVICE = StatusAdvice(
    {
        "MEM_OBJECT_ALLOCATION_FAILURE": "free device memory or use a smaller problem",
        "OUT_OF_RESOURCES": "use smaller work-groups, less local memory or smaller buffers",
        "OUT_OF_HOST_MEMORY": "free host memory",
        "INVALID_ARG_SIZE": "pass the type that the kernel declares",
        "INVALID_ARG_VALUE": "pass the kind of argument that the kernel declares",
        "INVALID_ARG_INDEX": "pass as many arguments as the kernel declares",
        "INVALID_MEM_OBJECT": "pass a buffer that this device allocated or adopted",
        "INVALID_WORK_GROUP_SIZE": "use the work-group size that the kernel declares",
        "DEVICE_NOT_AVAILABLE": "check the driver, then open the device again",
        "INVALID_COMMAND_QUEUE": "an earlier kernel crashed the device; start a new process",
        # NVIDIA's own.
        "<unknown error -9999>": "a kernel went outside its buffers; start a new process",
    }
)


def status_name(error: cl.Error) -> str:
    """Return the OpenCL status such as ``OUT_OF_RESOURCES``, or pyopencl's own words."""
    match = _STATUS.search(str(error))
    return match.group(1) if match else str(error)


def translated(error: cl.Error, doing: str, kind: RuntimeFailure) -> DeviceError | LaunchError:
    """Return convfind's error for one of pyopencl's; ``doing`` is what failed, with its values."""
    return _ADVICE.error(kind, doing, status_name(error))


@contextmanager
def opencl_errors(doing: str, kind: RuntimeFailure = DeviceError) -> Iterator[None]:
    """Turn pyopencl's errors in the body into convfind's."""
    try:
        yield
    except cl.Error as exc:
        raise translated(exc, doing, kind) from exc
