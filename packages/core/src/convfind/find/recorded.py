"""Measured solutions as the database has them: to a record, and back."""

from __future__ import annotations

import time

from convfind.find.solution import Solution, TimeOrigin
from convfind.finddb import FindRecord
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import Solver, versioned_id
from convfind.solver.config import Config
from convfind.types import Algorithm


def record_of(solution: Solution, solver: Solver, source_hash: str, session: Session) -> FindRecord:
    """Return the record of a solution that was measured just now."""
    assert solution.time_ms is not None
    return FindRecord(
        solver=solution.solver,
        solver_version=solver.version,
        package=session.registry.package_of(solution.solver),
        algorithm=solution.algorithm.value,
        time_ms=solution.time_ms,
        spread_ms=solution.spread,
        samples=solution.samples,
        workspace=solution.workspace,
        config=None if solution.config is None else dict(solution.config),
        error=solution.error,
        source_hash=source_hash,
        driver=session.target.driver,
        created=int(time.time()),
        constant_weights=solution.constant_weights,
    )


def solution_of(
    record: FindRecord, origin: TimeOrigin, problem: Problem, session: Session, policy: Policy
) -> Solution:
    """Return the solution that a record of a plain problem stands for."""
    return Solution(
        solver=record.solver,
        algorithm=Algorithm(record.algorithm),
        problem=problem.key,
        device=session.target.identity,
        time_ms=record.time_ms,
        time_origin=origin,
        workspace=record.workspace,
        error=record.error,
        config=None if record.config is None else Config(record.config),
        samples=record.samples,
        spread=record.spread_ms,
        over_limit=policy.is_over_limit(record.workspace),
        constant_weights=record.constant_weights,
        stale=record.driver != session.target.driver,
    )


def outrun_id(solver: Solver) -> str:
    """Return how a list of considered solvers names one that was left out as it cannot win."""
    return versioned_id(solver) + "~"
