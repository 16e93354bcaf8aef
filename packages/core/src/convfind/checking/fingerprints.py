"""`Fingerprints`: whether memory is still what it was, found out on the device that has it.

To read tensors back and compare them takes longer than everything else that a GPU's find does. A
fingerprint is the sum of all words, each times an odd number that follows from its place and from a
seed that nobody can know: a single word that changes always shows, and of other changes one in 2^32
at most does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from convfind.device.target import DeviceKind
from convfind.runtime.backend import InvokeArgs
from convfind.solver import asking
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, i32, i64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convfind.device.target import Target
    from convfind.runtime.backend import DeviceBuffer, Invoker
    from convfind.runtime.session import Session

Sums: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

_SOURCE = KernelSource("convfind.checking", "kernels/fingerprint.cl")
_ITEMS = 256
#: Work-groups for each compute unit, enough to wait for memory while others compute.
_GROUPS = 8
_WORD = 4


def items_on(target: Target) -> int:
    """Return the work-items of a group that adds up memory on a target, a power of two."""
    return min(_ITEMS, 1 << (max(target.max_work_group, 1).bit_length() - 1))


def groups_on(target: Target) -> int:
    """Return the work-groups that add up memory on a target, at most."""
    return _GROUPS * max(1, target.compute_units)


def program_for(target: Target) -> Program:
    """Return the program that takes fingerprints on a target."""
    return Program(_SOURCE, defines=make_defines(ITEMS=items_on(target)))


def are_taken_on(target: Target) -> bool:
    """Return whether a target's memory is so far from the host that fingerprints pay."""
    return target.kind is DeviceKind.GPU and not target.has("unified-memory")


class Fingerprints:
    """Takes fingerprints of memory on a device."""

    def __init__(self, session: Session, loaded: Mapping[Program, object]) -> None:
        """Take memory for sums. Raises `DeviceError`."""
        self._device = session.device
        self._loaded = loaded
        (self._program,) = loaded
        self._items, self._groups = items_on(session.target), groups_on(session.target)
        self._sums: Sums = np.empty(self._groups, np.uint64)
        self._sums_there = self._device.allocate(self._sums.nbytes)
        #: A secret from all who write into memory.
        self.seed = int(np.random.default_rng().integers(2**63))
        self._invokers: dict[tuple[int, int], tuple[Invoker, Sums]] = {}

    @classmethod
    def on(cls, session: Session) -> Fingerprints | None:
        """Return those of a session's device; None where its memory is as near to the host.

        Nor are there any on a device that cannot compile or run what takes them.
        """
        if not are_taken_on(session.target):
            return None
        loaded, failures = session.kernels.load([program_for(session.target)])
        if failures:
            return None
        try:
            fingerprints = cls(session, loaded)
            fingerprints.of(session.device.upload(np.zeros(_WORD, np.uint8)), _WORD)
        except asking.FAILURES:
            return None
        return fingerprints

    def of(self, buffer: DeviceBuffer, size: int, offset: int = 0) -> int:
        """Return the fingerprint of so many bytes from an offset on, after all enqueued work."""
        invoker, sums = self._invoker(size, offset)
        invoker(InvokeArgs(memory=buffer, sums=self._sums_there))
        self._device.read(self._sums_there, sums)
        return int(sums.sum(dtype=np.uint64))

    def _invoker(self, size: int, offset: int) -> tuple[Invoker, Sums]:
        """Return what adds memory up, and where the sums of its work-groups go."""
        known = self._invokers.get((size, offset))
        if known is not None:
            return known
        words, rest = divmod(size, _WORD)
        groups = min(self._groups, max(1, -(-words // self._items)))
        launch = Launch(
            KernelSpec(self._program, "fingerprint"),
            (BufferArg("memory", offset), BufferArg("sums"), i64(words), i32(rest), i64(self.seed)),
            global_size=(groups * self._items, 1, 1),
            local_size=(self._items, 1, 1),
        )
        made = self._device.invoker([launch], self._loaded), self._sums[:groups]
        self._invokers[size, offset] = made
        return made
