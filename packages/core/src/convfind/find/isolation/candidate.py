"""`IsolatedCandidate`: a candidate on a bench in the child, in whichever life the child is."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convfind.checking.accuracy import Checked
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
        weakref.finalize(self, bench.forgotten.append, self._number).atexit = False
        bench.attempt(self._put)

    def verify(self, solver: Solver) -> Checked:
        """Run once and check everything that was written."""
        checked: Checked = self._ask("verify")
        return checked

    def run_once(self) -> float:
        """Run once, without a check; return milliseconds of device time."""
        return float(self._ask("run_once"))

    def sample(self) -> float:
        """Run once on the next copy of the tensors; return milliseconds of device time."""
        milliseconds = self._timed("sample")
        if not self._bench.verifies:
            self._bench.limits.note_through()
        return milliseconds

    def confirm(self, solver: Solver) -> float:
        """Run once more, on what is timed, and check that; return milliseconds of device time."""
        milliseconds = self._timed("confirm")
        self._bench.limits.note_through()
        return milliseconds

    def _timed(self, method: str) -> float:
        milliseconds = float(self._ask(method))
        self._was_timed = True
        self._bench.limits.note_run(milliseconds)
        return milliseconds

    def _ask(self, method: str) -> Any:
        return self._bench.attempt(lambda: self._asked(method))

    def _asked(self, method: str) -> Any:
        self._put()
        return self._call(method, self._number)

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
        self._life = life

    def _call(self, method: str, *arguments: object) -> Any:
        limits = self._bench.limits
        limit = limits.run_again if self._was_timed else limits.run
        return self._bench.child.call(method, *arguments, limit=limit)
