"""Writing what a search found into the database."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from convfind.finddb import FindEntry, FindRecord
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.runtime.session import Session

if TYPE_CHECKING:
    from convfind.find.trial import SearchOutcome, Trial


def record(problem: ConvProblem, session: Session, policy: Policy, outcome: SearchOutcome) -> None:
    """Record the outcome for a plain problem. What was not verified is not recorded."""
    if not (policy.write_back and policy.verify and outcome.trials):
        return
    entry = FindEntry(
        records=tuple(_record(trial, session, policy) for trial in outcome.trials),
        considered=tuple(sorted(outcome.considered)),
    )
    session.database.store(
        session.target, problem, entry, replace=policy.replace, tuned_again=policy.retune
    )


def forget(problem: ConvProblem, session: Session, policy: Policy) -> None:
    """Forget what is recorded for a plain problem, of the solvers that the policy lets through."""
    allowed = None
    if policy.is_filtered:
        allowed = frozenset(
            solver.solver_id
            for solver in session.registry.solvers
            if policy.allows(solver.solver_id, solver.algorithm)
        )
    session.database.remove(session.target, problem, allowed)


def _record(trial: Trial, session: Session, policy: Policy) -> FindRecord:
    assert trial.measurement is not None
    solver, config = trial.solver, trial.recipe.config
    return FindRecord(
        solver=solver.solver_id,
        solver_version=solver.version,
        package=session.registry.package_of(solver.solver_id),
        algorithm=solver.algorithm.value,
        time_ms=trial.measurement.median,
        spread_ms=trial.measurement.spread,
        samples=len(trial.measurement.samples),
        workspace=trial.recipe.total_workspace,
        config=None if config is None else dict(config),
        error=trial.error,
        source_hash=trial.recipe.source_hash,
        driver=session.target.driver,
        created=int(time.time()),
        constant_weights=policy.constant_weights,
    )
