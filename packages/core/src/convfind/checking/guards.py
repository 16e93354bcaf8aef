"""Guards: poisoned bytes on both sides of memory, in which a stray write shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.runtime.backend import Device, DeviceBuffer
from convfind.solver.recipe import Step, align, relocated

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

#: Repeated, this byte is a NaN in every floating type and -1 as an integer.
POISON = 0xFF
_MOST = 1 << 20


def guard_size(size: int, least: int) -> int:
    """Bytes of a guard: as many as it guards, from ``least`` on up to 1 MiB."""
    return align(min(max(size, least), _MOST))


def poisoned(size: int) -> Bytes:
    """Return so many bytes of poison."""
    return np.full(size, POISON, np.uint8)


def is_poisoned(memory: Bytes) -> bool:
    """Say whether nothing was written into poisoned memory that starts at a multiple of 8 bytes."""
    words = memory.size & ~7
    if (memory[:words].view(np.int64) != -1).any():
        return False
    return not (memory[words:] != POISON).any()


@dataclass(frozen=True, slots=True)
class Guarded:
    """Device memory of ``size`` bytes between two guards."""

    buffer: DeviceBuffer
    size: int
    guard: int

    @classmethod
    def allocated(cls, allocate: Callable[[int], DeviceBuffer], size: int, least: int) -> Guarded:
        """Allocate memory, which is still to be poisoned. Raises `DeviceError`."""
        guard = guard_size(size, least)
        return cls(allocate(size + 2 * guard), size, guard)

    def complaint(self, device: Device) -> str | None:
        """Return where bytes were written outside: before the start, behind the end; or None."""
        if (seen := device.seen(self.buffer)) is not None:
            with seen as memory:
                return self._complaint_about(lambda offset: memory[offset : offset + self.guard])
        return self._complaint_about(lambda offset: self._read(device, offset))

    def _complaint_about(self, guard_at: Callable[[int], Bytes]) -> str | None:
        if not is_poisoned(guard_at(0)):
            return "wrote before the start of"
        if not is_poisoned(guard_at(self.guard + self.size)):
            return "wrote behind the end of"
        return None

    def _read(self, device: Device, offset: int) -> Bytes:
        guard = np.empty(self.guard, np.uint8)
        device.read(self.buffer, guard, offset)
        return guard


def behind_guards(steps: tuple[Step, ...], guards: Mapping[str, int]) -> tuple[Step, ...]:
    """Return steps on memory that begins behind guards of so many bytes."""

    def place(memory: str, offset: int) -> tuple[str, int]:
        return memory, offset + guards.get(memory, 0)

    return tuple(relocated(step, place) for step in steps)
