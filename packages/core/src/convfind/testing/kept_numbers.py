"""`KeptNumbers`: numbers of problems that one solver after the other is checked with."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from convfind.problem import ConvProblem
from convfind.testing.numbers import Numbers

#: How they are drawn, for which problem, and from which seed.
_Draw = tuple[Callable[[ConvProblem, int], Numbers], ConvProblem, int]


class KeptNumbers:
    """Those asked for last, with what is right for them, of tensors of so many bytes together."""

    def __init__(self, limit: int, largest: int) -> None:
        """Keep up to `limit` bytes, none of a problem with more than `largest`."""
        self._limit = limit
        self._largest = largest
        self._bytes = 0
        self._kept: dict[_Draw, Numbers] = {}  # the latest last
        self._lock = Lock()

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    def get(
        self, make: Callable[[ConvProblem, int], Numbers], problem: ConvProblem, seed: int
    ) -> Numbers:
        """Return numbers as they were the last time, or make them."""
        if problem.traffic > self._largest:
            return make(problem, seed)
        draw = make, problem, seed
        with self._lock:
            numbers = self._kept.pop(draw, None)
            if numbers is None:
                numbers = make(problem, seed)
                self._bytes += problem.traffic
            self._kept[draw] = numbers
            while self._bytes > self._limit:
                _, oldest, _ = first = next(iter(self._kept))
                del self._kept[first]
                self._bytes -= oldest.traffic
        return numbers
