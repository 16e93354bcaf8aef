"""`Gate`: work that others may do beside each other, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Many pass it together, or one alone, such as one that is suspected of a crash."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._inside = 0
        self._is_wanted = False  # by somebody who is or will be alone

    @contextmanager
    def together(self) -> Iterator[None]:
        """Pass with others."""
        with self._change:
            self._change.wait_for(lambda: not self._is_wanted)
            self._inside += 1
        try:
            yield
        finally:
            with self._change:
                self._inside -= 1
                self._change.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Pass while nobody else does."""
        with self._change:
            self._change.wait_for(lambda: not self._is_wanted)
            self._is_wanted = True
            self._change.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._change:
                self._is_wanted = False
                self._change.notify_all()
