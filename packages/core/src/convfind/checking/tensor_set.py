"""`TensorSet`: a draw's tensors on a device, and whether kernels left them as they should."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.checking.device_rings import DeviceRings
from convfind.checking.draw import Draw
from convfind.checking.fingerprints import Fingerprints
from convfind.checking.guards import POISON, Guarded, poisoned
from convfind.checking.pieces import side_by_side, slices_of
from convfind.checking.ring_copies import RingCopies
from convfind.checking.scratch import Scratch
from convfind.errors import DeviceError, VerificationError
from convfind.runtime.backend import Device, DeviceBuffer, InvokeArgs
from convfind.runtime.tensors import empty_memory, tensor_view

Array = np.ndarray[Any, Any]

#: Bytes of the guards around a result at least: a stray write may be far behind small tensors.
LEAST_GUARD = 1 << 19
#: Bytes that one thread compares: of fewer a core compares as many as the memory gives.
_PIECE = 1 << 24
#: Bytes that are read at a time.
_READ = 1 << 20

#: The C library's: it takes half as long as NumPy, and no memory for what it finds.
_memcmp = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class TensorSet:
    """Copies of the tensors of a draw in memory of the device's own, results between guards.

    Where there are ``fingerprints``, tensors are read back only if theirs have changed. Where there
    are ``rings``, large tensors are made on the device. Where there are ``copies`` of rings, they
    are parts of these if possible. All other memory is ``scratch`` where there is any.
    """

    def __init__(
        self,
        device: Device,
        draw: Draw,
        fingerprints: Fingerprints | None = None,
        rings: DeviceRings | None = None,
        scratch: Scratch | None = None,
        copies: RingCopies | None = None,
    ) -> None:
        self.draw = draw
        self._rings = rings
        self._device = device
        self._scratch = scratch
        allocate = device.allocate if scratch is None else scratch.allocate
        self._sizes = {name: draw.problem.operand(name).nbytes for name in draw.memory}
        self._reads: dict[str, DeviceBuffer] = {}
        for name, part in draw.parts.items():
            if copies is not None and (there := copies.tensor(part)) is not None:
                self._reads[name] = there
        unwritten = [name for name in self._sizes if name not in self._reads]
        self._reads |= {name: allocate(self._sizes[name]) for name in unwritten}
        self.results: dict[str, Guarded] = {}
        self.args = InvokeArgs(**self._reads)
        for name in draw.before:
            self.renew_result(name)
        self._write(unwritten)
        if draw.reads_results:
            self.reset_results()
        self._fingerprints = fingerprints
        self._marks: dict[str, int] = {}
        if fingerprints is not None:
            for name, buffer in self._reads.items():
                self._marks[name] = fingerprints.of(buffer, self._sizes[name])

    def restore(self) -> None:
        """Write what the draw says into the tensors that are read."""
        self._write(self._reads)

    def _write(self, names: Iterable[str]) -> None:
        for name in names:
            buffer, part = self._reads[name], self.draw.parts.get(name)
            if self._rings is None or part is None or not self._rings.fill(buffer, part):
                self._device.write(buffer, self.draw.memory[name])

    def write(self, memory: Mapping[str, Array]) -> None:
        """Write something else into them, by name."""
        for name, buffer in self._reads.items():
            self._device.write(buffer, memory[name])

    def reset_results(self) -> None:
        """Poison the results, or restore their previous contents where a run reads them."""
        for name, memory in self.results.items():
            if self.draw.reads_results:
                self._device.write(memory.buffer, self._images_before[name])
            else:
                self._device.fill(memory.buffer, POISON)

    def renew_result(self, name: str) -> None:
        """Take other memory for a result: whoever has the present one keeps it."""
        size, scratch = self.draw.before[name].nbytes, self._scratch
        if scratch is None:
            memory = Guarded.allocated(self._device.allocate, size, LEAST_GUARD)
            self._device.fill(memory.buffer, POISON)
        else:
            memory = Guarded.allocated(scratch.allocate, size, LEAST_GUARD)
        self.results[name] = memory
        setattr(self.args, name, memory.buffer)

    def changed(self) -> str | None:
        """Name a tensor that is only read and no longer what it was."""
        return next(filter(self._is_changed, self._reads), None)

    def renew(self, names: Iterable[str]) -> None:
        """Write tensors anew that are only read, and no longer what they were."""
        self._write(name for name in names if name in self._reads and self._is_changed(name))

    def _is_changed(self, name: str) -> bool:
        buffer, fingerprints = self._reads[name], self._fingerprints
        if fingerprints and fingerprints.of(buffer, self._sizes[name]) == self._marks[name]:
            return False
        return not has_contents(self._device, buffer, self.draw.memory[name])

    def check_reads(self) -> None:
        """Raise `VerificationError` if a tensor that is only read is not what it was."""
        if name := self.changed():
            msg = f"changed {name}, which it only reads"
            raise VerificationError(msg)

    @property
    def is_packed(self) -> bool:
        """True if nothing lies between the elements of the results."""
        return all(gaps is None for gaps in self._gaps.values())

    def check_around(self) -> None:
        """Raise `VerificationError` if something was written around the results."""
        for name, result in self.results.items():
            if complaint := result.complaint(self._device):
                msg = f"{complaint} {name}"
                raise VerificationError(msg)

    def outcome(self, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Read the results, axes in the order of their layouts.

        Args:
            memory: where to, by name, as `empty_memory` returns it.

        Raises:
            VerificationError: something was written around them, or between their elements.
        """
        self.check_around()
        views = {}
        for name, result in self.results.items():
            self._device.read(result.buffer, memory[name], result.guard)
            gaps = self._gaps[name]
            if gaps is not None and not same_bytes(
                self._without_elements(name, memory[name]), gaps
            ):
                msg = f"wrote into the gaps of {name}"
                raise VerificationError(msg)
            views[name] = tensor_view(self.draw.problem, name, memory[name])
        return views

    @cached_property
    def _images_before(self) -> dict[str, Array]:
        images = {}
        for name, memory in self.results.items():
            guard = poisoned(memory.guard)
            images[name] = np.concatenate([guard, self.draw.before[name].view(np.uint8), guard])
        return images

    @cached_property
    def _gaps(self) -> dict[str, Array | None]:
        """The bytes between the elements of each result; None where they are packed."""
        problem = self.draw.problem
        gaps: dict[str, Array | None] = {}
        for name, before in self.draw.before.items():
            if tensor_view(problem, name, before).nbytes == before.nbytes:
                gaps[name] = None
                continue
            memory = empty_memory(problem, name)
            contents = before.view(np.uint8) if self.draw.reads_results else POISON
            memory.view(np.uint8)[...] = contents
            gaps[name] = self._without_elements(name, memory)
        return gaps

    def _without_elements(self, name: str, memory: Array) -> Array:
        gaps = memory.copy()
        tensor_view(self.draw.problem, name, gaps)[...] = 0
        return gaps


def has_contents(device: Device, buffer: DeviceBuffer, contents: Array, offset: int = 0) -> bool:
    """Return whether device memory, from an offset on, has the bytes of an array.

    Where the host does not see it, it is read in pieces, into memory that stays in a cache. Raises
    `DeviceError` where the buffer ends before the array.
    """
    expected = contents.reshape(-1).view(np.uint8)
    if (seen := device.seen(buffer)) is not None:
        with seen as memory:
            end = offset + expected.size
            if end > memory.size:
                msg = f"{end} bytes are to be compared with a buffer of {memory.size} bytes"
                raise DeviceError(msg)
            return same_bytes(memory[offset:end], expected)
    read = np.empty(min(expected.size, _READ), np.uint8)
    for piece in slices_of(expected.size, _READ):
        now = read[: piece.stop - piece.start]
        device.read(buffer, now, offset + piece.start)
        if not same_bytes(now, expected[piece]):
            return False
    return True


def same_bytes(one: Array, other: Array) -> bool:
    """Compare two arrays of one size, NaN included."""
    first, second = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (one, other))

    def are_same(piece: slice) -> bool:
        places = (memory[piece].ctypes.data for memory in (first, second))
        return bool(_memcmp(*places, piece.stop - piece.start) == 0)

    return all(side_by_side(are_same, slices_of(first.size, _PIECE)))
