"""`Borrowed`: memory of other libraries that is kept until the stream is past its uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from convfind.errors import DeviceError, LaunchError


class Event(Protocol):
    """A moment in a stream."""

    def record(self, stream: int) -> None:
        """Set the event to the moment when all that was enqueued before is done."""

    def has_passed(self) -> bool:
        """Return whether the moment is over, or the device broke before it."""

    def wait(self) -> None:
        """Wait for the moment; return at once where the device broke before it."""


class Borrowed:
    """Memory of other libraries, given back when the stream is past the commands that use it.

    Until then they may not hand it to work on streams of their own. On a stream of the caller's the
    caller's library orders that itself, and gets the memory back at once.
    """

    def __init__(self, stream: int, make_event: Callable[[], Event]) -> None:
        self._stream = stream
        self._make_event = make_event
        self._returning: deque[tuple[Event, object]] = deque()
        self._is_open = True

    def give(self, block: object) -> None:
        """Note a block that nobody here uses any more. Called by finalisers, so at any moment."""
        if not self._is_open:
            return
        try:
            last = self._make_event()
            last.record(self._stream)
        except (DeviceError, LaunchError):
            return  # nothing runs on a broken device
        self._returning.append((last, block))

    def sweep(self) -> None:
        """Give back what the stream is past."""
        while self._returning:
            last, block = self._returning.popleft()
            if not last.has_passed():
                self._returning.appendleft((last, block))
                return

    def close(self) -> None:
        """Give back everything, now and from now on; the stream is idle."""
        self._is_open = False
        self._returning.clear()

    def __del__(self) -> None:
        # The device was dropped without being closed.
        for last, _ in getattr(self, "_returning", ()):
            last.wait()
