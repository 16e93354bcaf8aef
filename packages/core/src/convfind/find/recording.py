"""Writing what a search found into the database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from convfind.find.recall import recall
from convfind.find.recorded import record_of
from convfind.find.solution import Solution
from convfind.finddb import FindEntry, QuarantineRecord
from convfind.finddb.evidence import in_doubt
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import versioned_id
from convfind.solver.applicability import Rejected

if TYPE_CHECKING:
    from convfind.find.trial import SearchOutcome, Trial


def record(problem: Problem, session: Session, policy: Policy, outcome: SearchOutcome) -> bool:
    """Record the outcome for a plain problem. Solutions that were not verified are not recorded.

    Returns:
        Whether the next find measures again, as other work may have decided this one.
    """
    if not (_writes(policy) and outcome.trials):
        return False
    doubted = _doubted(problem, session, outcome)
    entry = FindEntry(
        records=tuple(
            record_of(solution, trial.solver, trial.recipe.source_hash, session)
            for trial, solution in zip(outcome.trials, outcome.solutions, strict=True)
        ),
        considered=tuple(sorted((outcome.considered - doubted) | set(map(in_doubt, doubted)))),
    )
    session.database.store(
        session.target, problem, entry, replace=policy.replace, tuned_again=policy.retune
    )
    return bool(doubted)


def as_recorded(
    solutions: Sequence[Solution], problem: Problem, session: Session, policy: Policy
) -> tuple[Solution, ...]:
    """Return solutions with the times that stay recorded.

    Where a solver's earlier time is less noisy, the record keeps that one.
    """
    stays = {one.solver: one for one in recall(problem, session, policy).solutions}

    def chosen(solution: Solution) -> Solution:
        kept = stays.get(solution.solver, solution)
        return solution if kept.time_ms == solution.time_ms else kept

    return tuple(map(chosen, solutions) if _writes(policy) else solutions)


def _writes(policy: Policy) -> bool:
    return policy.write_back and policy.verify


def _doubted(problem: Problem, session: Session, outcome: SearchOutcome) -> set[str]:
    """Return whom the next find measures again: where the machine is always busy, only once."""
    if not outcome.is_disturbed:
        return set()
    stored = session.database.lookup(session.target, problem)
    before = () if stored is None else stored.entry.considered
    names = {versioned_id(trial.solver) for trial in outcome.trials} & outcome.considered
    return {name for name in names if name not in before and in_doubt(name) not in before}


def quarantine(problem: Problem, session: Session, trial: Trial, why: Rejected) -> None:
    """Remember that a solver failed on a plain problem, so that it is not tried again."""
    config = trial.recipe.config
    session.database.quarantine(
        session.target,
        problem,
        QuarantineRecord(
            solver=trial.solver.solver_id,
            solver_version=trial.solver.version,
            source_hash=trial.recipe.source_hash,
            driver=session.target.driver,
            reason=why.reason.value,
            detail=why.detail,
            created=int(time.time()),
            config=None if config is None else dict(config),
        ),
    )


def forget(problem: Problem, session: Session, policy: Policy) -> None:
    """Forget what is recorded for a plain problem, of the solvers that the policy lets through."""
    allowed = None
    if policy.is_filtered:
        allowed = frozenset(
            solver.solver_id
            for solver in session.registry.offered(problem)
            if policy.allows(solver.solver_id, solver.algorithm)
        )
    session.database.remove(session.target, problem, allowed)
