"""`Scratch`: memory that one find after the other uses, so that pages are laid down once.

Fresh pages cost the system of a CPU more than kernels that fill them.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from convfind.checking.guards import POISON
from convfind.errors import DeviceError
from convfind.runtime.backend import Device, DeviceBuffer
from convfind.runtime.session import Session
from convfind.solver.recipe import align

#: The share of the device's memory that a session has for it, and bytes at most.
_SHARE, _MOST = 64, 1 << 29
#: Bytes of a page: whatever is taken begins at one.
_PAGE = 1 << 12


@dataclass(slots=True)
class _Arena:
    """Memory with pages up to where somebody has used it; they are laid down as they are used."""

    buffer: DeviceBuffer
    used: int = 0
    user: weakref.ref[Scratch] | None = field(default=None, repr=False)


class Scratch:
    """The memory that one find takes, piece by piece; all of it is free when nobody has this."""

    def __init__(self, session: Session) -> None:
        self._device: Device = session.device
        self._arena = _arena_of(session)
        self._taken = 0
        if self._arena is not None:
            self._arena.user = weakref.ref(self)

    @classmethod
    def on(cls, session: Session) -> Scratch | None:
        """Return that of a device whose buffers have parts, as a CPU's; None for others."""
        return cls(session) if session.device.has_parts else None

    def allocate(self, size: int) -> DeviceBuffer:
        """Return memory of which all pages are laid down. Raises `DeviceError`."""
        arena, begin, end = self._arena, self._taken, self._taken + align(size, _PAGE)
        if arena is None or end > arena.buffer.size:
            taken = self._device.allocate(size)
            self._device.fill(taken, POISON)
            return taken
        self._taken = end
        if end > arena.used:
            self._device.fill(self._device.part(arena.buffer, arena.used, end - arena.used), POISON)
            arena.used = end
        return self._device.part(arena.buffer, begin, size)


def _arena_of(session: Session) -> _Arena | None:
    """Return a session's, unless somebody else still uses it."""
    arena = session.kept.get("scratch")
    if arena is None:
        try:
            buffer = session.device.allocate(min(session.target.global_memory // _SHARE, _MOST))
        except DeviceError:
            return None
        arena = session.kept["scratch"] = _Arena(buffer)
    is_free = arena.user is None or arena.user() is None
    return arena if is_free else None
