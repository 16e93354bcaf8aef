"""`Improving`: a function that serves at once, until a better one is found behind it."""

from __future__ import annotations

import atexit
import logging
import weakref
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import torch

from convfind.runtime.session import Progress

_LOG = logging.getLogger("convfind.torch")

Run = Callable[..., tuple[Any, ...]]

_ENDING = Event()  # the process ends
_ALL = weakref.WeakSet["Improving"]()
_THREADS = weakref.WeakSet[Thread]()


class Improving:
    """A function that is replaced once, between two calls, by one that a thread makes.

    The thread gives up at its next step where nobody holds the function any more, and where the
    process ends. Where it fails, the first function stays.
    """

    def __init__(self, first: Run, better: Callable[[Progress], Run]) -> None:
        """Serve by ``first``; ``better`` gets what it calls at each of its steps."""
        self._run = first
        self.thread = Thread(
            target=_improve, args=(weakref.ref(self), better), name="convfind", daemon=True
        )
        _ALL.add(self)
        _THREADS.add(self.thread)
        self.thread.start()

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """Compute by the best that there is."""
        return self._run(*tensors)

    def wait(self) -> None:
        """Wait for the better one."""
        self.thread.join()

    def take(self, run: Run) -> None:
        """Serve by another function from the next call on."""
        self._run = run


def under_way() -> list[Improving]:
    """Return the functions for which better ones are being made."""
    return [one for one in _ALL if one.thread.is_alive()]


class _GivenUp(Exception):
    """Nobody waits for the result."""


def _improve(served: weakref.ref[Improving], better: Callable[[Progress], Run]) -> None:
    def step(stage: str, done: int, total: int, label: str) -> None:
        if _ENDING.is_set() or served() is None:
            raise _GivenUp

    try:
        with torch.no_grad():  # which each thread says for itself
            run = better(step)
    except _GivenUp:
        return
    except Exception as error:  # what a thread raises, nobody sees
        _LOG.warning("the estimated plan stays: %s", error)
        return
    waiting = served()
    if waiting is not None:
        waiting.take(run)


@atexit.register
def _end() -> None:
    """Wait for the threads' steps under way: runtimes do not bear an end in their midst."""
    _ENDING.set()
    for thread in list(_THREADS):
        thread.join()
