"""Gives each thread that computes on a CPU a core of its own: the runtime's, and the caller's."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from convfind.device.target import DeviceKind, Target

#: With one of these the user has chosen where threads run.
_CHOICES = tuple(
    f"{prefix}_CPU_{name}" for prefix in ("DPCPP", "SYCL") for name in ("CU_AFFINITY", "PLACES")
)
#: One thread at a time waits on the callers' core.
_WAITING = Lock()


@contextmanager
def placed_workers(target: Target) -> Iterator[None]:
    """Keep the workers that Intel's runtime starts in the body off the callers' core.

    The runtime has one fewer than there are cores, for the thread that waits computes, too. It
    binds each to a core of its own, but only as soon as the worker runs.
    """
    core = callers_core(target)
    if core is None:
        yield
        return
    before = _threads()
    yield
    others = os.sched_getaffinity(0) - {core}
    for thread in _threads() - before:
        with suppress(OSError):  # it has ended, or may not run there
            os.sched_setaffinity(thread, os.sched_getaffinity(thread) & others or others)


class Caller:
    """The thread that waits for a device: on a core that no worker has while it does."""

    def __init__(self, target: Target) -> None:
        self._core = callers_core(target)
        if self._core is not None:
            self._current_core: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu

    def wait(self, until: Callable[[], object]) -> None:
        """Call a function that returns when commands have ended, and may help to execute them.

        Systems like to wake threads where they are woken from. A thread that is on a worker's core
        then would take turns with it there while another core is idle, so it moves.
        """
        if self._core is None or self._current_core() == self._core:
            until()
            return
        before = os.sched_getaffinity(0)
        # A thread without that core among its own was bound by the user since.
        if self._core not in before or not _WAITING.acquire(blocking=False):
            until()
            return
        try:
            os.sched_setaffinity(0, {self._core})
            until()
        finally:
            os.sched_setaffinity(0, before)
            _WAITING.release()


def callers_core(target: Target) -> int | None:
    """Return the core that Intel's runtime leaves to the caller, None where threads are free."""
    if sys.platform != "linux" or any(name in os.environ for name in _CHOICES):
        return None
    if target.kind is not DeviceKind.CPU or not target.platform.startswith("Intel"):
        return None
    cores = os.sched_getaffinity(0)
    return min(cores) if len(cores) > 1 else None


def _threads() -> set[int]:
    return set(map(int, os.listdir("/proc/self/task")))
