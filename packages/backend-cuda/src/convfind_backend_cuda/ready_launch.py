"""A kernel with its arguments packed: a call launches it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import partial
from typing import Any

from cuda.bindings import driver

from convfind.backend_kit.addressed import AddressBuffer
from convfind.backend_kit.launching import (
    LaunchLimits,
    PackedArguments,
    launch_name,
    loaded_program,
)
from convfind.backend_kit.pointed import AddressedMemory, Point
from convfind.errors import LaunchError
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch
from convfind_backend_cuda.driver_call import LaunchConfig, in_context, launch_kernel
from convfind_backend_cuda.errors import checked, failure
from convfind_backend_cuda.module import LoadedProgram
from convfind_backend_cuda.queue import Queue
from convfind_backend_cuda.tensor_map import tensor_map

#: Work-groups that CUDA launches along the first axis, and along the others.
_MOST_GROUPS = (2**31 - 1, 65535, 65535)


class ReadyLaunch:
    """A launch made ready for a queue."""

    __slots__ = ("_arguments", "_call", "_config", "_kept", "_queue", "_stream", "name")

    def __init__(self, queue: Queue, launch: Launch, loaded: Mapping[Program, object]) -> None:
        self.name = launch_name(launch.kernel)
        self._queue = queue
        program = loaded_program(launch.kernel, loaded, LoadedProgram)
        function = program.kernel(launch.kernel)
        LaunchLimits(group=_attribute(function, "MAX_THREADS_PER_BLOCK", self.name)).check(launch)
        self._arguments = PackedArguments.of(launch, tensor_map)
        check_arguments(self.name, self._arguments.sizes, declared_sizes(function))
        local = self._arguments.local_memory
        if local:
            _allow_local_memory(function, local, self.name)
        data = self._arguments.data
        view = (ctypes.c_char * len(data)).from_buffer(data)
        # An address for each argument: the driver takes less time for these than for a buffer.
        start = ctypes.addressof(view)
        places = _places(self._arguments.sizes)
        parameters = (ctypes.c_void_p * len(places))(*(start + place for place in places))
        sizes = grid(self.name, launch)
        self._stream = queue.stream
        self._config = LaunchConfig(sizes[:3], sizes[3:], local, self._stream)
        self._kept = (program, view, parameters)  # what the addresses lead to
        # Converted once, because a call is mostly the conversion of its arguments.
        self._call = partial(
            launch_kernel(),
            ctypes.c_void_p(ctypes.addressof(self._config)),
            ctypes.c_void_p(int(function)),
            ctypes.c_void_p(ctypes.addressof(parameters)),
            None,
        )

    def bind(self, buffers: Mapping[str, AddressBuffer]) -> None:
        """Write the buffers' addresses into the arguments."""
        self._arguments.bind(buffers)

    def pointed(self, memory: AddressedMemory) -> Point:
        """Return what writes a call's addresses into the arguments. Raises `LaunchError`."""
        return self._arguments.pointed(memory)

    def enqueue(self) -> None:
        """Enqueue the kernel."""
        queue = self._queue
        if queue.stream != self._stream:
            self._config.stream = self._stream = queue.stream
        status = self._call()
        if status:
            status = in_context(status, queue.context, self._call)
        if status:
            raise failure(status, "cuLaunchKernelEx", f"launch of {self.name}", LaunchError)


def _places(sizes: tuple[int, ...]) -> list[int]:
    """Return where arguments of these sizes lie: each at a multiple of its own."""
    places, end = [], 0
    for size in sizes:
        places.append(end + -end % size)
        end = places[-1] + size
    return places


def grid(name: str, launch: Launch) -> tuple[int, ...]:
    """Return work-groups and their items along three axes. Raises `LaunchError` for too many."""
    sizes = zip(launch.global_size, launch.local_size, strict=True)
    groups = (*(total // local for total, local in sizes), 1, 1)[:3]
    for axis, (count, most) in enumerate(zip(groups, _MOST_GROUPS, strict=True)):
        if count > most:
            raise LaunchError(f"{name}: {count} work-groups along axis {axis}; CUDA has {most}")
    return (*groups, *(*launch.local_size, 1, 1)[:3])


def check_arguments(name: str, given: tuple[int, ...], declared: tuple[int, ...] | None) -> None:
    """Raise `LaunchError` unless a kernel declares arguments of these sizes; None: not known."""
    if declared is not None and declared != given:
        raise LaunchError(f"{name} declares arguments of {declared} bytes and gets {given}")


def declared_sizes(function: Any) -> tuple[int, ...] | None:
    """Return the sizes of a kernel's arguments, in bytes; None where the driver is too old."""
    sizes: list[int] = []
    while True:
        status, _offset, size = driver.cuFuncGetParamInfo(function, len(sizes))
        if status == driver.CUresult.CUDA_ERROR_INVALID_VALUE:  # behind the last
            return tuple(sizes)
        if status:
            return None
        sizes.append(size)


def _attribute(function: Any, name: str, doing: str) -> int:
    which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    asked = driver.cuFuncGetAttribute(which, function)
    value: int = checked(asked, "cuFuncGetAttribute", doing, LaunchError)
    return value


def _allow_local_memory(function: Any, size: int, name: str) -> None:
    """Let launches of a kernel ask for local memory, which is 48 KiB at most without this."""
    which = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    doing = f"{name} with {size} bytes of local memory"
    checked(
        driver.cuFuncSetAttribute(function, which, size), "cuFuncSetAttribute", doing, LaunchError
    )
