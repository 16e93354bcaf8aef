"""`Tally`: counts what a find does and turns it into its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from convfind.find.recall import Recalled
from convfind.find.result import FindOrigin, FindResult
from convfind.find.solution import Solution
from convfind.log import logger
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver.applicability import Rejected


class Tally:
    """The work of a find since it began."""

    def __init__(self, problem: Problem, session: Session, policy: Policy) -> None:
        self._problem = problem
        self._session = session
        self._mode = policy.mode.name
        self._began = time.perf_counter()
        self._compiled_before = session.kernels.compiled
        self.measured = 0
        self.is_in_doubt = False

    def answer(self, known: Recalled) -> FindResult:
        """Return what the database knows as the result."""
        self.is_in_doubt = known.is_in_doubt
        return self.result(known.solutions, known.origin, known.rejected)

    def result(
        self,
        solutions: Sequence[Solution],
        origin: FindOrigin,
        rejected: Mapping[str, Rejected],
    ) -> FindResult:
        """Return the result and tell the listeners."""
        key = self._problem.text
        solved = {solution.solver for solution in solutions}
        result = FindResult(
            problem=key,
            device=self._session.target.identity,
            mode=self._mode,
            origin=origin,
            solutions=tuple(
                solution if solution.problem == key else replace(solution, problem=key)
                for solution in solutions
            ),
            rejected={s: why for s, why in rejected.items() if s not in solved},
            compiled=self._session.kernels.compiled - self._compiled_before,
            measured=self.measured,
            elapsed=time.perf_counter() - self._began,
            flops=self._problem.flops,
            is_in_doubt=self.is_in_doubt,
        )
        if result.is_in_doubt and self.measured:
            logger.warning("%s: measured beside other work; its next find measures again", key)
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s: %s", key, _summary(result))
        self._session.registry.find_finished(self._problem, self._session.target, result)
        return result


def _summary(result: FindResult) -> str:
    best = next((one for one in result.solutions if not one.over_limit), None)
    choice = "no solution"
    if best is not None:
        time_ms = best.estimate_ms
        known = "time unknown" if time_ms is None else f"{time_ms:.4g} ms, {best.time_origin}"
        choice = f"{best.solver}, {known}"
    return (
        f"{choice}, {result.mode} answered by {result.origin.value} in {result.elapsed:.3f} s: "
        f"{len(result.solutions)} solutions, {len(result.rejected)} refused, "
        f"{result.compiled} compiled, {result.measured} measured"
    )
