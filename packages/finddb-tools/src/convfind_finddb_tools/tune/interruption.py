"""`Interruption`: the first Ctrl-C requests an end, the second one forces it."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self

_CODE = 130  # of a program that was interrupted


class Interruption:
    """Turns signals into a flag that the run checks regularly. A context manager."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[int, Any] = {}

    def asked(self) -> bool:
        """True after the first signal."""
        return self._asked

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            # At once, as kill -9 would: nothing that is on the disk needs a farewell.
            os._exit(_CODE)
        self._asked = True
        if number == signal.SIGINT:
            sys.stderr.write("finishing what is under way; again to end at once\n")
