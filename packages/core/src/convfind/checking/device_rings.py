"""`DeviceRings`: rings of random numbers that a device has, and makes tensors of by itself.

The tensors of a find are many times as large as the numbers that are drawn for them, and a host
takes longer to upload them than a GPU takes to run a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.checking.fingerprints import Fingerprints, groups_on, items_on
from convfind.checking.random_numbers import COUNT, Part, RandomNumbers
from convfind.kit.launching import Grid
from convfind.runtime.backend import DeviceBuffer, InvokeArgs
from convfind.runtime.session import Session
from convfind.solver import asking
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import i64

_SOURCE = KernelSource("convfind.checking", "kernels/ring.cl")
#: Smaller tensors are uploaded as quickly.
_LEAST = 1 << 18
#: The share of the device's memory that a ring takes at most.
_SHARE = 256


def program_for(dtype: np.dtype[Any]) -> Program:
    """Return the program that takes parts of rings of a type."""
    return Program(_SOURCE, defines=make_defines(NUMBER_SIZE=dtype.itemsize))


@dataclass(frozen=True, slots=True)
class _Ring:
    """A ring on the device; it stays from find to find, beside what kernels write."""

    buffer: DeviceBuffer
    size: int
    fingerprints: Fingerprints
    mark: int

    @property
    def is_intact(self) -> bool:
        return self.fingerprints.of(self.buffer, self.size) == self.mark


class DeviceRings:
    """The rings of a session's device."""

    def __init__(self, session: Session, fingerprints: Fingerprints) -> None:
        self._session = session
        self._fingerprints = fingerprints

    @classmethod
    def on(cls, session: Session, fingerprints: Fingerprints | None) -> DeviceRings | None:
        """Return those of a device that takes fingerprints; None for others."""
        return None if fingerprints is None else cls(session, fingerprints)

    def fill(self, buffer: DeviceBuffer, part: Part) -> bool:
        """Fill memory with a part of a ring; return False where the host has to do so."""
        target, ring = self._session.target, part.numbers.ring
        if part.count < _LEAST or ring.nbytes > target.global_memory // _SHARE:
            return False
        program = program_for(ring.dtype)
        grid = Grid(program, "part_of_ring", groups_on(target), items_on(target))
        launch = grid("ring", "part", i64(COUNT), i64(part.start), i64(part.count))
        try:
            there = self._ring_of(part.numbers)
            loaded = self._session.kernels.load_or_raise([program])
            run = self._session.device.invoker([launch], loaded)
            run(InvokeArgs(ring=there.buffer, part=buffer))
        except asking.FAILURES:
            return False
        return True

    def _ring_of(self, numbers: RandomNumbers) -> _Ring:
        """Return a ring, uploaded where the device lacks it or somebody wrote into it."""
        kept = self._session.kept.get(numbers.name)
        if isinstance(kept, _Ring) and kept.is_intact:
            return kept
        memory, device = numbers.whole(), self._session.device
        buffer = device.allocate(memory.nbytes)
        device.write(buffer, memory)
        mark = self._fingerprints.of(buffer, memory.nbytes)
        ring = _Ring(buffer, memory.nbytes, self._fingerprints, mark)
        self._session.kept[numbers.name] = ring
        return ring
