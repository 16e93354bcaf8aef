"""`Budget`: the seconds that a find may take, and how many candidates still fit into them."""

from __future__ import annotations

import sys
import time


class Budget:
    """Runs from its creation on. Without a number of seconds it is never spent."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._slowest = 0.0  # seconds to compile one candidate

    @property
    def is_limited(self) -> bool:
        """True where there is a number of seconds."""
        return self._end is not None

    @property
    def is_spent(self) -> bool:
        """True where no further candidate may be begun."""
        return self._end is not None and time.monotonic() >= self._end

    @property
    def left(self) -> float | None:
        """Seconds that are left, None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def batch(self, parallel: int) -> int:
        """How many candidates to compile next, of which so many are compiled at once.

        There is time for them also where the compiler takes them one after another, as some do.
        """
        if self._end is None:
            return sys.maxsize
        if not self._slowest:
            return 1
        left = self._end - time.monotonic()
        return max(1, min(parallel, int(left / self._slowest)))

    def compiled(self, candidates: int, seconds: float) -> None:
        """Take note of how long so many candidates took to compile."""
        self._slowest = max(self._slowest, seconds / candidates)
