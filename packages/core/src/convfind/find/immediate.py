"""Immediate mode's fallback: solutions with estimates where no record exists; nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from convfind.errors import SolverError
from convfind.find.advice import ask_heuristics
from convfind.find.forecast import INDEX, SIBLINGS
from convfind.find.known import known
from convfind.find.packing import Packing
from convfind.find.ranking import merged
from convfind.find.screening import Screening
from convfind.find.solution import Solution, TimeOrigin
from convfind.policy import Fallback, Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import Solver, asking
from convfind.solver.applicability import Rejected
from convfind.types import Algorithm

#: The time given to an index of 1, in ms, as MIOpen has it: a scale for comparing, no prediction.
_WTI_SCALE_MS = 10.0


@dataclass(frozen=True, slots=True)
class Estimates:
    """Solutions with estimates, best first, and the refusals of the other solvers."""

    solutions: tuple[Solution, ...]
    rejected: Mapping[str, Rejected]


def estimate(
    problem: Problem,
    session: Session,
    policy: Policy,
    screening: Screening,
    recorded: Sequence[Solution] = (),
) -> Estimates:
    """Rank the candidates of a plain problem: heuristic, forecasts, throughput index, list order.

    Each speaks where those before have nothing to say; forecasts are made of records and models
    of like problems and related devices. For a kind of problem that is never measured there is the
    list order only.

    ``policy.fallback`` starts the chain further down: "wti" skips heuristics and forecasts, "gemm"
    leaves GEMM and the last resorts only. Last resorts come last, whatever is expected of them.
    Solutions that are ``recorded`` stand in place of estimates.
    """
    solvers = screening.candidates
    if policy.fallback is Fallback.GEMM:
        solvers = tuple(s for s in solvers if s.algorithm is Algorithm.GEMM or s.is_last_resort)
    expected = _expected(problem, session, solvers, policy)
    found: list[Solution] = []
    rejected = dict(screening.rejected)
    for solver in solvers:
        try:
            found.append(_estimated(solver, problem, session, policy, expected))
        except SolverError as error:
            rejected[solver.solver_id] = Rejected(Reason.SOLVER_ERROR, error.detail)
    last = frozenset(solver.solver_id for solver in solvers if solver.is_last_resort)
    return Estimates(merged(recorded, found, policy.order, last), rejected)


class _Expected(NamedTuple):
    """An expected time in ms, whose word it is, and the confidence of a prediction."""

    time_ms: float
    origin: TimeOrigin
    confidence: float | None = None


def _expected(
    problem: Problem, session: Session, solvers: Sequence[Solver], policy: Policy
) -> dict[str, _Expected]:
    """Return what is expected of solvers before any index is asked, by their ids."""
    advice = ask_heuristics(problem, session, solvers, policy.fallback)
    if advice.predictions or policy.fallback is not Fallback.AI or not problem.is_measured:
        packing = Packing(problem, session, solvers, policy)
        times = packing.as_measured({one.solver: one.time_ms for one in advice.predictions})
        return {
            one.solver: _Expected(times[one.solver], TimeOrigin.PREDICTED, one.confidence)
            for one in advice.predictions
        }
    forecasts = known(problem, session, solvers, policy).forecasts
    if all(one.source == INDEX for one in forecasts.values()):
        return {}
    return {
        solver: _Expected(
            one.time_ms, TimeOrigin.SIBLING if one.source in SIBLINGS else TimeOrigin.FORECAST
        )
        for solver, one in forecasts.items()
    }


def _estimated(
    solver: Solver,
    problem: Problem,
    session: Session,
    policy: Policy,
    expected: Mapping[str, _Expected],
) -> Solution:
    workspace = asking.workspace_size(solver, problem, session.target, policy.workspace_limit)
    told = expected.get(solver.solver_id) or _by_index(solver, problem, session, policy)
    return Solution(
        solver=solver.solver_id,
        algorithm=solver.algorithm,
        problem=problem.key,
        device=session.target.identity,
        time_ms=None,
        estimate_ms=None if told is None else told.time_ms,
        time_origin=TimeOrigin.NONE if told is None else told.origin,
        workspace=workspace,
        over_limit=policy.is_over_limit(workspace),
        constant_weights=policy.constant_weights,
        confidence=None if told is None else told.confidence,
    )


def _by_index(
    solver: Solver, problem: Problem, session: Session, policy: Policy
) -> _Expected | None:
    """Return a time by the throughput index, where the policy asks it and the solver has one."""
    if policy.fallback is Fallback.GEMM or not problem.is_measured:
        return None
    index = asking.wti(solver, problem, session.target)
    if index is None or index <= 0:
        return None
    return _Expected(_WTI_SCALE_MS / index, TimeOrigin.WTI)
