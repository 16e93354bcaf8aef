"""`LaunchLimits`, `PackedArguments`: launches checked, and arguments as runtimes take them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np

from convfind.backend_kit.addressed import AddressBuffer
from convfind.backend_kit.pointed import AddressedMemory, Point
from convfind.cached import RecentlyUsed
from convfind.errors import LaunchError
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, LocalArg, ScalarArg, TensorMapArg

LoadedT = TypeVar("LoadedT")
#: Writes a tensor map of memory at an address.
MapWriter = Callable[[TensorMapArg, int], bytes]
_ADDRESS = struct.Struct("<Q")
#: Bytes of a tensor map, and those of whose multiples it has to lie.
_MAP_BYTES = 128
#: Maps that an argument keeps: callers go back and forth between few places in memory.
_MOST_MAPS = 32


def launch_name(kernel: KernelSpec) -> str:
    """Return a kernel's name in messages: its entry point and its source."""
    return f"{kernel.entry} of {kernel.program.source}"


def loaded_program(
    kernel: KernelSpec, loaded: Mapping[Program, object], kind: type[LoadedT]
) -> LoadedT:
    """Return a kernel's program as the device loaded it. Raises `LaunchError` if it did not."""
    program = loaded.get(kernel.program)
    if not isinstance(program, kind):
        msg = f"{kernel.program.source} is not loaded; load it before making an invoker"
        raise LaunchError(msg)
    return program


def check_entry(kernel: KernelSpec, entries: Iterable[str]) -> None:
    """Raise `LaunchError` unless a program has a kernel's entry point."""
    entries = tuple(entries)
    if kernel.entry not in entries:
        has = ", ".join(entries)
        msg = f"{kernel.program.source} has no kernel {kernel.entry!r}; it has: {has}"
        raise LaunchError(msg)


@dataclass(frozen=True, slots=True)
class LaunchLimits:
    """Limits of a kernel on a device; None where the runtime has none."""

    group: int  # work-items of a work-group
    group_axes: tuple[int, ...] | None = None  # work-items of a work-group along each axis
    items: int | None = None  # work-items along an axis
    declared: tuple[int, ...] | None = None  # the work-group size that the kernel declares, in 3-D
    local_memory: int | None = None  # bytes that arguments may ask for
    alignment: int = 1  # of offsets, in bytes

    def check(self, launch: Launch) -> None:
        """Raise `LaunchError`, with names and numbers, for a launch that is not possible."""
        name = launch_name(launch.kernel)
        self._check_sizes(name, launch.global_size, launch.local_size)
        local = [arg.size for arg in launch.arguments if isinstance(arg, LocalArg)]
        if self.local_memory is not None and (
            any(size < 1 for size in local) or sum(local) > self.local_memory
        ):
            possible = f"1 to {self.local_memory} in all"
            raise LaunchError(f"{name}: local memory of {local} bytes; possible: {possible}")
        for argument in launch.arguments:
            if isinstance(argument, BufferArg | TensorMapArg):
                self._check_offset(name, argument)

    def _check_offset(self, name: str, argument: BufferArg | TensorMapArg) -> None:
        place = f"{name}: byte {argument.offset} of {argument.memory}"
        if argument.offset < 0:
            raise LaunchError(f"{place} is not possible; allowed: 0 or more")
        if argument.offset % self.alignment:
            raise LaunchError(f"{place} is no multiple of {self.alignment}")

    def _check_sizes(
        self, name: str, global_size: tuple[int, ...], local_size: tuple[int, ...]
    ) -> None:
        sizes = f"global size {global_size}, local size {local_size}"
        if len(global_size) != len(local_size) or not 1 <= len(global_size) <= 3:
            raise LaunchError(f"{name}: {sizes} must have the same number of dimensions, 1 to 3")
        if min(*global_size, *local_size) < 1:
            raise LaunchError(f"{name}: {sizes} must be positive")
        if any(total % local for total, local in zip(global_size, local_size, strict=True)):
            msg = f"{name}: global size {global_size} is not a multiple of {local_size}"
            raise LaunchError(msg)
        if self.items is not None and max(global_size) > self.items:
            msg = f"{name}: global size {global_size} is over {self.items} along an axis"
            raise LaunchError(msg)
        if self.group_axes is not None:
            limits = self.group_axes[: len(local_size)]
            if any(local > limit for local, limit in zip(local_size, limits, strict=True)):
                raise LaunchError(f"{name}: local size {local_size} is over the device's {limits}")
        if self.declared is not None and self.declared != (*local_size, 1, 1)[:3]:
            msg = f"{name}: local size {local_size} is not the {self.declared} that it declares"
            raise LaunchError(msg)
        if prod(local_size) > self.group:
            items = f"a group of {prod(local_size)}"
            raise LaunchError(f"{name}: {items} is over the kernel's limit of {self.group}")


def scalar(name: str, index: int, argument: ScalarArg) -> np.generic:
    """Return a number as its type. Raises `LaunchError` if the type cannot hold it."""
    try:
        value: np.generic = np.dtype(argument.kind).type(argument.value)
    except (TypeError, ValueError, OverflowError) as exc:
        msg = f"argument {index} of {name}: {argument.value!r} is no {argument.kind}"
        raise LaunchError(msg) from exc
    return value


@dataclass(frozen=True, slots=True)
class _PlacedMap:
    """A tensor map among packed arguments, and what it is for recent addresses."""

    at: int  # its first byte
    argument: TensorMapArg
    known: RecentlyUsed[int, bytes]

    def at_address(self, address: int, write: MapWriter) -> bytes:
        """Return the map for memory at an address."""
        found = self.known.get(address)
        if found is None:
            found = write(self.argument, address + self.argument.offset)
            self.known.put(address, found)
        return found


@dataclass(frozen=True, slots=True)
class PackedArguments:
    """Arguments laid out as a C structure has them, with addresses to be filled in.

    Local memory is no argument of such kernels: they declare it, of a size that the launch says.
    """

    name: str  # of the kernel
    data: bytearray
    buffers: tuple[tuple[int, str, int], ...]  # place of the address, memory, offset in it
    sizes: tuple[int, ...]  # bytes of each argument
    local_memory: int  # bytes
    maps: tuple[_PlacedMap, ...] = ()
    write_map: MapWriter | None = None

    @classmethod
    def of(cls, launch: Launch, write_map: MapWriter | None = None) -> PackedArguments:
        """Lay out a launch's arguments; without ``write_map`` there are no maps of tensors.

        Raises `LaunchError`.
        """
        name, data = launch_name(launch.kernel), bytearray()
        buffers: list[tuple[int, str, int]] = []
        maps: list[_PlacedMap] = []
        sizes: list[int] = []
        local_memory = 0
        for index, argument in enumerate(launch.arguments):
            if isinstance(argument, LocalArg):
                local_memory += argument.size
                continue
            if isinstance(argument, BufferArg):
                value = bytes(_ADDRESS.size)
            elif isinstance(argument, TensorMapArg):
                if write_map is None:
                    raise LaunchError(f"argument {index} of {name}: only CUDA has tensor maps")
                value = bytes(_MAP_BYTES)
            else:
                value = scalar(name, index, argument).tobytes()
            data += bytes(-len(data) % len(value))
            if isinstance(argument, TensorMapArg):
                maps.append(_PlacedMap(len(data), argument, RecentlyUsed(_MOST_MAPS)))
            if isinstance(argument, BufferArg):
                buffers.append((len(data), argument.memory, argument.offset))
            data += value
            sizes.append(len(value))
        return cls(name, data, tuple(buffers), tuple(sizes), local_memory, tuple(maps), write_map)

    def bind(self, buffers: Mapping[str, AddressBuffer]) -> None:
        """Write the buffers' addresses. Raises `LaunchError` for an offset behind a buffer."""
        for at, memory, offset in self.buffers:
            check_inside(self.name, memory, offset, buffers[memory].block.size)
            _ADDRESS.pack_into(self.data, at, buffers[memory].address + offset)
        for one in self.maps:
            memory, buffer = one.argument.memory, buffers[one.argument.memory]
            check_inside(self.name, memory, one.argument.offset, buffer.block.size)
            self._write_map(one, buffer.address)

    def _write_map(self, one: _PlacedMap, address: int) -> None:
        assert self.write_map is not None  # `of` refuses maps without it
        self.data[one.at : one.at + _MAP_BYTES] = one.at_address(address, self.write_map)

    def pointed(self, memory: AddressedMemory) -> Point:
        """Return what writes a call's addresses. Raises `LaunchError`, as `bind` does."""
        words = memoryview(self.data)[: len(self.data) // _ADDRESS.size * _ADDRESS.size].cast("Q")
        places: list[tuple[int, int, int]] = []
        for at, name, offset in self.buffers:
            place, size = memory.find(name)
            check_inside(self.name, name, offset, size)
            places.append((at // _ADDRESS.size, place, offset))
        pointers = tuple(places)

        def point(addresses: Sequence[int]) -> None:
            for word, place, offset in pointers:
                words[word] = addresses[place] + offset

        if not self.maps:
            return point
        mapped: list[tuple[_PlacedMap, int]] = []
        for one in self.maps:
            place, size = memory.find(one.argument.memory)
            check_inside(self.name, one.argument.memory, one.argument.offset, size)
            mapped.append((one, place))

        def point_maps(addresses: Sequence[int]) -> None:
            point(addresses)
            for one, place in mapped:
                self._write_map(one, addresses[place])

        return point_maps


def check_inside(name: str, memory: str, offset: int, size: int) -> None:
    """Raise `LaunchError` unless a byte of a buffer of ``size`` bytes exists."""
    if not 0 <= offset < size:
        raise LaunchError(f"{name}: byte {offset} of {memory} is outside its {size} bytes")


def check_end(name: str, memory: str, end: int, size: int) -> None:
    """Raise `LaunchError` if a region ends behind its buffer of ``size`` bytes."""
    if end > size:
        raise LaunchError(
            f"{name} ends at byte {end} of {memory}, past the end of its {size} bytes"
        )
