"""Large arrays in pieces, which threads work on side by side: NumPy lets them run at once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np

from convfind.settings import usable_cpus

T = TypeVar("T")
R = TypeVar("R")
Array = np.ndarray[Any, Any]

#: Elements that one thread copies.
_COPIED_AT_ONCE = 1 << 20
#: Elements from which on threads share work on arrays, and the axes of which one is cut, so that
#: rows stay whole.
_WORTH_SHARING, _LEADING = 1 << 17, 3


def slices_of(size: int, piece: int) -> list[slice]:
    """Cut so many elements into pieces of that many, the last one perhaps smaller."""
    return [slice(at, min(at + piece, size)) for at in range(0, size, piece)]


def side_by_side(work: Callable[[T], R], pieces: Sequence[T]) -> list[R]:
    """Return what work returns for each piece; this thread and others share them.

    The other threads are the same ones in all calls, and are never waited for before they have
    begun: calls from many threads, and from within work, only get less help.
    """
    threads = min(len(pieces), usable_cpus())
    if threads < 2:
        return list(map(work, pieces))
    shared = _Shared(work, pieces)
    take = _as_here(shared.take)
    helpers: list[Future[None]] = []
    try:
        with suppress(RuntimeError):  # no thread can be started: this one does without
            for _ in range(threads - 1):
                helpers.append(_pool().submit(take))
        shared.take()
    finally:
        shared.end()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
    return shared.outcome()


def in_parts(work: Callable[..., object], *arrays: Array) -> None:
    """Work on arrays of one shape, such as by `numpy.copyto`; threads share them."""
    shape = arrays[0].shape
    if arrays[0].size < _WORTH_SHARING:
        work(*arrays)
        return
    axis = shape.index(max(shape[:_LEADING]))
    each = -(-shape[axis] // usable_cpus())
    places = [(slice(None),) * axis + (part,) for part in slices_of(shape[axis], each)]
    side_by_side(lambda place: work(*(array[place] for array in arrays)), places)


class Begun(Generic[R]):
    """Work that another thread does meanwhile; this one does it where no other had time."""

    def __init__(self, work: Callable[[], R]) -> None:
        self._work = _as_here(work)
        self._job: Future[R] | None = None
        with suppress(RuntimeError):  # no thread can be started: this one does without
            self._job = _pool().submit(self._work)

    def result(self) -> R:
        """Return what the work returns, or raise what it raises; waits for it."""
        if self._job is None or self._job.cancel():
            return self._work()
        return self._job.result()


def copied(array: Array) -> Array:
    """Return a copy; of a large array threads copy pieces, each on fresh pages of its own."""
    if not array.flags.c_contiguous:
        return array.copy()
    copy = np.empty_like(array)
    source, target = array.reshape(-1), copy.reshape(-1)

    def fill(piece: slice) -> None:
        target[piece] = source[piece]

    side_by_side(fill, slices_of(source.size, _COPIED_AT_ONCE))
    return copy


def _as_here(work: Callable[[], R]) -> Callable[[], R]:
    """Return the work with NumPy's errors handled as here: a thread has its own ways."""
    handling, told = np.geterr(), np.geterrcall()

    def done() -> R:
        ways = np.errstate(**handling) if told is None else np.errstate(call=told, **handling)
        with ways:
            return work()

    return done


class _Shared(Generic[T, R]):
    """Pieces that threads take one after the other, and what becomes of them."""

    def __init__(self, work: Callable[[T], R], pieces: Sequence[T]) -> None:
        self._work = work
        self._left = deque(enumerate(pieces))
        self._results: dict[int, R] = {}
        self._errors: dict[int, BaseException] = {}
        self._is_over = False

    def take(self) -> None:
        """Work on pieces until none is left, or one has failed."""
        while not self._is_over:
            try:
                place, piece = self._left.popleft()
            except IndexError:
                return
            try:
                self._results[place] = self._work(piece)
            except BaseException as error:
                self._errors[place] = error
                self.end()

    def end(self) -> None:
        """Have nobody begin another piece."""
        self._is_over = True

    def outcome(self) -> list[R]:
        """Return the results in the order of the pieces, or raise what the first one raised."""
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[place] for place in range(len(self._results))]


_pools: dict[str, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """Return this process's threads. They are started as they are needed, and end with it."""
    pool = _pools.get("only")
    if pool is None:
        made = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="convfind-pieces")
        pool = _pools.setdefault("only", made)  # without a lock that a fork might leave locked
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # threads do not cross a fork
