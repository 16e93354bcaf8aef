"""`IsolatedCandidate`: a candidate on a bench in the child, in whichever life the child is."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convfind.checking.accuracy import ErrorReport
    from convfind.find.isolation.bench import IsolatedBench
    from convfind.solver import Solver
    from convfind.solver.recipe import Recipe


class IsolatedCandidate:
    """A recipe on an isolated bench. Methods raise `LostError` beside what those of others do."""

    def __init__(self, bench: IsolatedBench, recipe: Recipe, solver: Solver) -> None:
        """Put it there. Raises `LaunchError`; `ForeignError` where the child cannot have it."""
        self._bench = bench
        self._recipe = recipe
        self._solver = solver
        self._number = next(bench.child.numbers)
        self._life = 0
        self._was_timed = False
        self._is_timed = False  # in this life
        weakref.finalize(self, bench.forgotten.append, self._number).atexit = False
        bench.attempt(self._put)

    def verify(self, solver: Solver) -> ErrorReport:
        """Run once and check everything that was written."""
        report: ErrorReport = self._ask("verify")
        return report

    def run_once(self) -> float:
        """Run once, without a check; return milliseconds of device time."""
        return float(self._ask("run_once"))

    def sample(self) -> float:
        """Run once on the next copy of the tensors; return milliseconds of device time."""
        milliseconds = float(self._ask("sample"))
        self._was_timed = self._is_timed = True
        self._bench.limits.note_run(milliseconds)
        if not self._bench.verifies:
            self._bench.limits.note_through()
        return milliseconds

    def confirm(self, solver: Solver, *, again: bool = False) -> None:
        """Check what the last timed run wrote, or another run if ``again``."""
        self._ask("confirm", again)
        self._bench.limits.note_through()

    def _ask(self, method: str, *arguments: object) -> Any:
        return self._bench.attempt(lambda: self._asked(method, arguments))

    def _asked(self, method: str, arguments: tuple[object, ...]) -> Any:
        self._put()
        if method == "confirm" and self._was_timed and not self._is_timed:
            self._call("sample", self._number)  # its last run was in another life
            self._is_timed = True
        return self._call(method, self._number, *arguments)

    def _put(self) -> None:
        bench = self._bench
        life = bench.settle()
        if life == self._life:
            return
        if bench.forgotten:
            forgotten, bench.forgotten[:] = tuple(bench.forgotten), []
            bench.ask("forget", forgotten)
        bench.send(self._recipe.programs)
        self._call("candidate", bench.number, self._number, self._recipe, self._solver)
        self._life, self._is_timed = life, False

    def _call(self, method: str, *arguments: object) -> Any:
        limits = self._bench.limits
        limit = limits.run_again if self._was_timed else limits.run
        return self._bench.child.call(method, *arguments, limit=limit)
