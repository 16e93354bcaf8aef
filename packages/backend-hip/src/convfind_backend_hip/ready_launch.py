"""A kernel with its arguments packed: a call launches it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from hip import hip

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
from convfind_backend_hip.errors import checked, failure
from convfind_backend_hip.module import LoadedProgram

#: Markers in the list of launch parameters, HIP_LAUNCH_PARAM_... of HIP's header.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3
#: Work-items along an axis that HIP launches.
_MOST_ITEMS = 2**32 - 1


class ReadyLaunch:
    """A launch made ready for one stream."""

    __slots__ = ("_arguments", "_extra", "_function", "_kept", "_sizes", "_stream", "name")

    def __init__(self, stream: int, launch: Launch, loaded: Mapping[Program, object]) -> None:
        self.name = launch_name(launch.kernel)
        self._stream = stream
        program = loaded_program(launch.kernel, loaded, LoadedProgram)
        self._function = program.kernel(launch.kernel)
        LaunchLimits(group=_most(self.name, self._function), items=_MOST_ITEMS).check(launch)
        self._arguments = PackedArguments.of(launch)
        if self._arguments.local_memory:
            msg = f"{self.name} has an argument for local memory; in HIP kernels declare theirs"
            raise LaunchError(msg)
        facts, sizes = program.facts.get(launch.kernel.entry), self._arguments.sizes
        if facts is not None and facts.argument_sizes != sizes:
            declared = facts.argument_sizes
            msg = f"{self.name} declares arguments of {declared} bytes and gets {sizes}"
            raise LaunchError(msg)
        data = self._arguments.data
        view = (ctypes.c_char * len(data)).from_buffer(data)
        size = ctypes.c_size_t(len(data))
        parameters = (ctypes.c_void_p * 5)(
            *(_BUFFER_POINTER, ctypes.addressof(view)),
            *(_BUFFER_SIZE, ctypes.addressof(size), _END),
        )
        self._extra = ctypes.addressof(parameters)
        self._kept = (program, view, size, parameters)  # what the addresses lead to
        groups = (a // b for a, b in zip(launch.global_size, launch.local_size, strict=True))
        self._sizes = (*(*groups, 1, 1)[:3], *(*launch.local_size, 1, 1)[:3])

    def bind(self, buffers: Mapping[str, AddressBuffer]) -> None:
        """Write the buffers' addresses into the arguments."""
        self._arguments.bind(buffers)

    def pointed(self, memory: AddressedMemory) -> Point:
        """Return what writes a call's addresses into the arguments. Raises `LaunchError`."""
        return self._arguments.pointed(memory)

    def enqueue(self) -> None:
        """Enqueue the kernel."""
        (status,) = hip.hipModuleLaunchKernel(
            self._function, *self._sizes, 0, self._stream, None, self._extra
        )
        if status:
            raise failure(status, "hipModuleLaunchKernel", f"launch of {self.name}", LaunchError)


def _most(name: str, function: Any) -> int:
    """Return the most work-items of a group of a kernel."""
    attribute = hip.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    asked = hip.hipFuncGetAttribute(attribute, function)
    most: int = checked(asked, "hipFuncGetAttribute", name, LaunchError)
    return most
