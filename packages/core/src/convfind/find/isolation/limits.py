"""`Limits`: how long the child may take to answer, before it is taken for lost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from convfind.find.isolation.process import EndedError, OverdueError
from convfind.reasons import Reason

if TYPE_CHECKING:
    from convfind.find.budget import Budget
    from convfind.problem.contract import Problem

#: Seconds that are no hint of an endless kernel, however small the problem: machines are busy.
_LEAST_RUN = 5.0
_LEAST_COMPILATION = 30.0
#: A candidate this many times slower than the best is not worth waiting for ...
_TIMES_SLOWER = 100.0
#: ... nor one that computes fewer operations in a second, or checks fewer bytes.
_OPERATIONS_PER_SECOND = 2e8
_BYTES_PER_SECOND = 2e7
#: A compilation may take this many times as long as the longest so far.
_TIMES_LONGER = 10.0
_READY = 600.0
#: Seconds beyond the budget that a run may end in.
_GRACE = 0.5


class Limits:
    """Limits for one problem, which follow from its size, the best so far, and the budget."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        self._by_size = max(problem.flops, 0.0) / _OPERATIONS_PER_SECOND
        self._checking = max(problem.traffic, 0.0) / _BYTES_PER_SECOND
        self._budget = budget
        self._best: float | None = None
        self._is_through = False
        self._longest_compilation = 0.0

    def note_run(self, milliseconds: float) -> None:
        """Take note of a run."""
        self._best = min(milliseconds / 1e3, self._best or math.inf)

    def note_through(self) -> None:
        """Take note that there is a result: from now on the budget ends who tries to beat it."""
        self._is_through = True

    def note_compilation(self, seconds: float) -> None:
        """Take note of how long a program took."""
        self._longest_compilation = max(seconds, self._longest_compilation)

    @property
    def ready(self) -> float:
        """Seconds to draw data and compute what is right, which no candidate has a part in."""
        return _READY + self._by_size + self._checking

    def compilation(self, patience: int = 1) -> float:
        """Return the seconds to compile one program, times a number."""
        seconds = max(_LEAST_COMPILATION, _TIMES_LONGER * self._longest_compilation)
        return self._within_budget(patience * seconds)

    @property
    def run(self) -> float:
        """Seconds to run a candidate for the first time, and to check it."""
        return self._within_budget(self.run_again)

    @property
    def run_again(self) -> float:
        """Seconds to run one that was timed, and to check it: it is known to end."""
        longest = self._by_size if self._best is None else _TIMES_SLOWER * self._best
        return _LEAST_RUN + longest + self._checking

    @property
    def is_by_budget(self) -> bool:
        """True if what took too long did so for the budget only."""
        return self._is_through and self._budget.is_spent

    def blamed(self, error: EndedError) -> Reason:
        """Return what is to be said of a candidate that made the child end."""
        if not isinstance(error, OverdueError):
            return Reason.CRASHED
        return Reason.BUDGET if self.is_by_budget else Reason.HUNG

    def _within_budget(self, seconds: float) -> float:
        """Return seconds up to the end of the budget, which ends nothing before a result."""
        left = self._budget.left
        if left is None or not self._is_through:
            return seconds
        return min(seconds, left + _GRACE)
