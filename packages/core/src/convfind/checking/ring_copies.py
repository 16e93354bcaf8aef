"""`RingCopies`: copies of rings of random numbers, of which the tensors of timed runs are parts.

A find runs candidates on so many copies of its tensors that none is in a cache. To write them takes
a CPU longer than to run the candidates. So a session writes them once: each copy of a tensor that
is part of a ring is part of a copy of that ring.
"""

from __future__ import annotations

from dataclasses import dataclass

from convfind.checking.random_numbers import Part
from convfind.runtime.backend import Device, DeviceBuffer
from convfind.runtime.session import Session
from convfind.solver.recipe import align

#: The share of the device's memory that a copy takes at most.
_SHARE = 256
#: Bytes that are written together.
_PAGE = 1 << 12


@dataclass(slots=True)
class _Copy:
    """A copy of a ring, written from its start up to where somebody needed it so far."""

    buffer: DeviceBuffer
    written: int = 0


class RingCopies:
    """A copy of each ring, by the number of the copies.

    A kernel may have written into it in a run that nobody looked at, in another find too. So who
    checks a run here looks at what was read, and if need be has it restored and runs again.
    """

    def __init__(self, session: Session, number: int) -> None:
        self._kept = session.kept
        self._device: Device = session.device
        self._most = session.target.global_memory // _SHARE
        self._number = number

    @classmethod
    def on(cls, session: Session, number: int) -> RingCopies | None:
        """Return those of a device whose buffers have parts, as a CPU's; None for others."""
        return cls(session, number) if session.device.has_parts else None

    def tensor(self, part: Part) -> DeviceBuffer | None:
        """Return memory that had these numbers when it was written; None where there is none."""
        numbers, step, size = part.numbers, part.numbers.ring.itemsize, part.numbers.ring.nbytes
        if not part.is_in_one_piece or size > self._most:
            return None
        name = ("copy", numbers.name, self._number)
        copy = self._kept.get(name)
        if copy is None:
            copy = self._kept[name] = _Copy(self._device.allocate(size))
        begin, end = part.start * step, (part.start + part.count) * step
        if end > copy.written:
            until = min(align(end, _PAGE), size)
            more = self._device.part(copy.buffer, copy.written, until - copy.written)
            first, count = copy.written // step, (until - copy.written) // step
            self._device.write(more, numbers.seen(first, count))
            copy.written = until
        return self._device.part(copy.buffer, begin, end - begin)
