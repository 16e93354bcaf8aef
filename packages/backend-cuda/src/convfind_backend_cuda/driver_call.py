"""The driver's calls that every run makes, with as little as possible around them.

The bindings spend microseconds on the arguments of a launch; these are called by ctypes, at the
addresses that the driver itself gives.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_void_p
from functools import cache
from typing import Any

from cuda.bindings import driver

from convfind_backend_cuda.context import Context
from convfind_backend_cuda.errors import checked

#: The interface of the calls: that of CUDA 12.0, which later drivers keep.
_INTERFACE = 12000
#: Statuses of calls in a thread that has no context, or that of another device.
_OTHER_CONTEXT = frozenset({201, 400, 709})


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of CUDA's header: all of a launch but the kernel and its arguments."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("local_memory", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    )


@cache
def launch_kernel() -> Callable[..., int]:
    """Return cuLaunchKernelEx: configuration, function, addresses of arguments, None."""
    return _call("cuLaunchKernelEx", c_void_p, c_void_p, c_void_p, c_void_p)


@cache
def launch_graph() -> Callable[..., int]:
    """Return cuGraphLaunch: executable graph, stream."""
    return _call("cuGraphLaunch", c_void_p, c_void_p)


@cache
def set_bytes() -> Callable[..., int]:
    """Return cuMemsetD8Async: address, byte, size, stream."""
    return _call("cuMemsetD8Async", c_void_p, c_ubyte, c_size_t, c_void_p)


def in_context(status: int, context: Context, again: Callable[[], int]) -> int:
    """Return the status of a call that failed, after another try if the thread was to blame."""
    if status not in _OTHER_CONTEXT:
        return status
    context.use()
    with context:
        return again()


def _call(name: str, *types: type[ctypes._SimpleCData[Any]]) -> Callable[..., int]:
    flags = driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    found = driver.cuGetProcAddress(name.encode(), _INTERFACE, flags)
    address = checked(found, "cuGetProcAddress", name)
    function: Callable[..., int] = ctypes.CFUNCTYPE(c_int, *types)(int(address))
    return function
