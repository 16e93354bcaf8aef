"""`Behind`: a thread that does what was put for it, for callers that need not wait for a disk."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: Seconds that a store may take before those that follow are no longer waited for.
SLOW = 0.02


class Behind(Generic[T]):
    """Work on items in their order, on all that wait at a time; the thread ends where none does.

    A process that ends, or forks, waits for the work first. One that is killed leaves it undone.
    """

    def __init__(
        self, work: Callable[[Sequence[T]], None], forget: Callable[[], None] = lambda: None
    ) -> None:
        """``forget`` is called in a child, whose parent has the thread and does the work."""
        self._work = work
        self._also_forget = forget
        self._changed = threading.Condition()
        self._waiting: list[T] = []
        self._is_working = False

    def takes(self, seconds: float) -> bool:
        """Return whether work of so many seconds is for the thread.

        A process that was forked does it at once: it may end without a word.
        """
        return seconds >= SLOW and not _forked

    def put(self, item: T) -> None:
        """Have an item worked on soon: now, where no thread can be started."""
        _watch(self)
        with self._changed:
            self._waiting.append(item)
            if self._is_working:
                return
            self._is_working = True
        try:
            threading.Thread(target=self._run, name="convfind-stores", daemon=True).start()
        except RuntimeError:
            self._run()

    def flush(self) -> None:
        """Wait until all work is done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_working)

    @property
    def is_waited_for(self) -> bool:
        """True where an item has not been begun with."""
        return bool(self._waiting)

    def _run(self) -> None:
        while True:
            with self._changed:
                items, self._waiting = self._waiting, []
                if not items:
                    self._is_working = False
                    self._changed.notify_all()
                    return
            try:
                self._work(items)
            except BaseException:
                with self._changed:
                    self._is_working = False
                    self._changed.notify_all()
                raise

    def forget(self) -> None:
        """Begin anew, in a child."""
        self._changed, self._waiting, self._is_working = threading.Condition(), [], False
        self._also_forget()


_all: weakref.WeakSet[Behind[Any]] = weakref.WeakSet()
_watched: list[bool] = []
_forked: list[bool] = []


def _watch(behind: Behind[Any]) -> None:
    """Have a process that ends or forks wait.

    What a process does before it forks is done last in, first out. So this comes in late: once
    there is work, all locks that the work takes are known, and are held after it is done only.
    """
    if not _watched:
        _watched.append(True)
        atexit.register(_flush_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_flush_all, after_in_child=_forget_all)
    _all.add(behind)


def _flush_all() -> None:
    for behind in list(_all):
        behind.flush()


def _forget_all() -> None:
    for behind in list(_all):
        behind.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _forked.append(True))
