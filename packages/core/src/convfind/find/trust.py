"""Trust but verify: recorded solutions run again before they are believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from convfind.find.budget import Budget
from convfind.find.decision import Decision
from convfind.find.ranking import merged
from convfind.find.recording import record
from convfind.find.screening import Screening
from convfind.find.search import Search
from convfind.find.solution import Solution
from convfind.find.trial import NOT_RUN
from convfind.finddb.evidence import assumed_spread
from convfind.log import logger
from convfind.problem.contract import Problem
from convfind.runtime.session import Session, silent
from convfind.solver.applicability import Rejected


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of running recorded solutions again."""

    holds: bool  # none failed or took longer than the tolerance allows
    measured: int
    solutions: tuple[Solution, ...]  # with the new times of those that ran, without the failed ones
    rejected: Mapping[str, Rejected]


def check(plain: Problem, session: Session, decision: Decision, budget: Budget) -> Check:
    """Run the recorded winner, or all solutions, again, as far as the budget goes.

    Solutions that ran are recorded with their new times, so that a shipped or stale record becomes
    the user's.
    """
    policy, known, chosen = decision.policy, decision.known, decision.checked
    configs = {s.solver: s.config for s in chosen if s.config is not None}
    solvers = tuple(session.registry.solver(solution.solver) for solution in chosen)
    search = Search(plain, session, replace(policy, tune=False), silent, configs, budget)
    outcome = search.run(Screening(solvers))
    record(plain, session, replace(policy, replace=True), outcome)
    failed = {s for s, why in outcome.rejected.items() if why.reason not in NOT_RUN}
    left = [solution for solution in known.solutions if solution.solver not in failed]
    return Check(
        holds=not failed and not _slower(chosen, outcome.solutions, policy.tolerance),
        measured=len(outcome.trials),
        solutions=merged(outcome.solutions, left, policy.order),
        rejected={**known.rejected, **outcome.rejected},
    )


def _slower(recorded: Sequence[Solution], now: Sequence[Solution], tolerance: float) -> bool:
    """True where one is slower than the tolerance allows, and by more than its own spread."""
    again = {solution.solver: solution for solution in now}
    for solution in recorded:
        found, then = again.get(solution.solver), solution.time_ms
        if found is None or found.time_ms is None or then is None:
            continue
        spread = assumed_spread(found.time_ms, found.spread, found.samples)
        if found.time_ms - spread > then * (1 + tolerance):
            logger.info(
                "%s: recorded %.4g ms, now %.4g: its problem is measured anew",
                *(solution.solver, then, found.time_ms),
            )
            return True
    return False
