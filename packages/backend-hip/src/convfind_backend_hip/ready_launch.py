"""A kernel with its arguments packed: a call writes the buffers' addresses and launches."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from hip import hip

from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, LocalArg, ScalarArg
from convfind_backend_hip.errors import checked, failure
from convfind_backend_hip.memory import HipBuffer
from convfind_backend_hip.module import LoadedProgram

if TYPE_CHECKING:
    from convfind_backend_hip.device import HipDevice

_ADDRESS = struct.Struct("<Q")
#: Markers in the list of launch parameters, HIP_LAUNCH_PARAM_... of HIP's header.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3
#: Work-items along an axis that HIP launches.
_MOST_ITEMS = 2**32 - 1


class ReadyLaunch:
    """A launch made ready for one stream."""

    __slots__ = (
        "_buffers",
        "_extra",
        "_function",
        "_kept",
        "_packed",
        "_sizes",
        "_stream",
        "name",
    )

    def __init__(self, device: HipDevice, launch: Launch, loaded: Mapping[Program, object]) -> None:
        source = str(launch.kernel.program.source)
        self.name = f"{launch.kernel.entry} of {source}"
        self._stream = device.stream
        program = loaded.get(launch.kernel.program)
        if not isinstance(program, LoadedProgram):
            msg = f"{source} is not loaded; load it before making an invoker"
            raise LaunchError(msg)
        self._function = program.kernel(launch.kernel.entry, source)
        _check_sizes(self.name, self._function, launch)
        self._packed, self._buffers, sizes = _packed(self.name, launch)
        facts = program.facts.get(launch.kernel.entry)
        if facts is not None and facts.argument_sizes != sizes:
            declared = facts.argument_sizes
            msg = f"{self.name} declares arguments of {declared} bytes and gets {sizes}"
            raise LaunchError(msg)
        view = (ctypes.c_char * len(self._packed)).from_buffer(self._packed)
        size = ctypes.c_size_t(len(self._packed))
        parameters = (ctypes.c_void_p * 5)(
            *(_BUFFER_POINTER, ctypes.addressof(view)),
            *(_BUFFER_SIZE, ctypes.addressof(size), _END),
        )
        self._extra = ctypes.addressof(parameters)
        self._kept = (program, view, size, parameters)  # what the addresses lead to
        groups = (a // b for a, b in zip(launch.global_size, launch.local_size, strict=True))
        self._sizes = (*(*groups, 1, 1)[:3], *(*launch.local_size, 1, 1)[:3])

    def enqueue(self, args: InvokeArgs) -> None:
        """Enqueue the kernel."""
        for at, memory, offset in self._buffers:
            buffer: HipBuffer = getattr(args, memory)
            if offset >= buffer.block.size:
                size = buffer.block.size
                msg = f"{self.name}: byte {offset} of {memory} is outside its {size} bytes"
                raise LaunchError(msg)
            _ADDRESS.pack_into(self._packed, at, buffer.address + offset)
        (status,) = hip.hipModuleLaunchKernel(
            self._function, *self._sizes, 0, self._stream, None, self._extra
        )
        if status:
            raise failure(status, "hipModuleLaunchKernel", f"launch of {self.name}", LaunchError)


def _packed(
    name: str, launch: Launch
) -> tuple[bytearray, tuple[tuple[int, str, int], ...], tuple[int, ...]]:
    """Lay the arguments out as a C structure has them.

    Returns:
        The structure, where each buffer's address belongs in it, and the sizes of all arguments.
    """
    packed = bytearray()
    buffers: list[tuple[int, str, int]] = []
    sizes: list[int] = []
    for index, argument in enumerate(launch.arguments):
        if isinstance(argument, LocalArg):
            msg = f"argument {index} of {name} is local memory; in HIP kernels declare theirs"
            raise LaunchError(msg)
        value = bytes(8) if isinstance(argument, BufferArg) else _scalar(name, index, argument)
        packed += bytes(-len(packed) % len(value))
        if isinstance(argument, BufferArg):
            if argument.offset < 0:
                msg = f"{name}: byte {argument.offset} of {argument.memory} is not possible"
                raise LaunchError(msg)
            buffers.append((len(packed), argument.memory, argument.offset))
        packed += value
        sizes.append(len(value))
    return packed, tuple(buffers), tuple(sizes)


def _scalar(name: str, index: int, argument: ScalarArg) -> bytes:
    try:
        value: bytes = np.dtype(argument.kind).type(argument.value).tobytes()
    except (TypeError, ValueError, OverflowError) as exc:
        msg = f"argument {index} of {name}: {argument.value!r} is no {argument.kind}"
        raise LaunchError(msg) from exc
    return value


def _check_sizes(name: str, function: Any, launch: Launch) -> None:
    global_size, local_size = launch.global_size, launch.local_size
    sizes = f"global size {global_size}, local size {local_size}"
    if len(global_size) != len(local_size) or not 1 <= len(global_size) <= 3:
        raise LaunchError(f"{name}: {sizes} must have the same number of dimensions, 1 to 3")
    if min(*global_size, *local_size) < 1:
        raise LaunchError(f"{name}: {sizes} must be positive")
    if any(total % local for total, local in zip(global_size, local_size, strict=True)):
        raise LaunchError(f"{name}: global size {global_size} is not a multiple of {local_size}")
    if max(global_size) > _MOST_ITEMS:
        raise LaunchError(f"{name}: global size {global_size} is over {_MOST_ITEMS} along an axis")
    attribute = hip.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    asked = hip.hipFuncGetAttribute(attribute, function)
    most = checked(asked, "hipFuncGetAttribute", name, LaunchError)
    if prod(local_size) > most:
        items = prod(local_size)
        raise LaunchError(f"{name}: a group of {items} is over the kernel's limit of {most}")
