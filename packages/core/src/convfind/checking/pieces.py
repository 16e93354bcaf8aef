"""Large arrays in pieces, which threads work on side by side: NumPy lets them run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from convfind.settings import usable_cpus

T = TypeVar("T")
R = TypeVar("R")


def slices_of(size: int, piece: int) -> list[slice]:
    """Cut so many elements into pieces of that many, the last one perhaps smaller."""
    return [slice(at, min(at + piece, size)) for at in range(0, size, piece)]


def side_by_side(work: Callable[[T], R], pieces: Sequence[T]) -> list[R]:
    """Return what work returns for each piece; threads of the call's own share them."""
    threads = min(len(pieces), usable_cpus())
    if threads < 2:
        return list(map(work, pieces))
    with ThreadPoolExecutor(threads) as pool:  # none is left behind that a fork would lose
        return list(pool.map(work, pieces))
