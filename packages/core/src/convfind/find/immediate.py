"""Immediate mode's fallback: solutions with estimates where no record exists; nothing runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from convfind.errors import SolverError
from convfind.find.ranking import merged
from convfind.find.screening import Screening
from convfind.find.solution import Solution, TimeOrigin
from convfind.heuristics import (
    Heuristic,
    Neighbour,
    NeighbourHeuristic,
    NotApplicable,
    Prediction,
)
from convfind.kit.composed import Composed, without_epilogue
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
    known: Sequence[Solution] = (),
) -> Estimates:
    """Rank the candidates of a plain problem: heuristic, then throughput index, then list order.

    For a kind of problem that is never measured there is the list order only.

    ``policy.fallback`` starts the chain further down: "wti" skips the heuristics, "gemm" leaves
    GEMM and the last resorts only. Last resorts come last, whatever is expected of them. Solutions
    that are ``known`` stand in place of estimates.
    """
    solvers = screening.candidates
    if policy.fallback is Fallback.GEMM:
        solvers = tuple(s for s in solvers if s.algorithm is Algorithm.GEMM or s.is_last_resort)
    advice = ask_heuristics(problem, session, solvers, policy.fallback)
    predicted = {prediction.solver: prediction for prediction in advice.predictions}
    found: list[Solution] = []
    rejected = dict(screening.rejected)
    for solver in solvers:
        try:
            found.append(_estimated(solver, problem, session, policy, predicted))
        except SolverError as error:
            rejected[solver.solver_id] = Rejected(Reason.SOLVER_ERROR, error.detail)
    last = frozenset(solver.solver_id for solver in solvers if solver.is_last_resort)
    return Estimates(merged(known, found, policy.order, last), rejected)


@dataclass(frozen=True, slots=True)
class Advice:
    """What the heuristics say: the ranking of the first that applies, and why others did not."""

    heuristic: str | None = None
    predictions: tuple[Prediction, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()  # name and reason
    neighbours: tuple[Neighbour, ...] = ()  # the records that the ranking makes use of


def ask_heuristics(
    problem: Problem, session: Session, solvers: Sequence[Solver], fallback: Fallback
) -> Advice:
    """Ask the heuristics in turn; the first that knows the device and the problem decides."""
    if fallback is not Fallback.AI or not solvers or not problem.is_measured:
        return Advice()
    inner = without_epilogue(problem)
    if inner is not problem:
        return _of_fused(inner, session, solvers, fallback)
    refusals: list[tuple[str, str]] = []
    for heuristic in session.heuristics:
        if getattr(heuristic, "kind", "conv") != problem.kind:
            continue
        near = _neighbours(heuristic, problem, session)
        answer = _ask(heuristic, problem, session, solvers, near)
        if not isinstance(answer, NotApplicable):
            return Advice(heuristic.name, answer, tuple(refusals), near)
        refusals.append((heuristic.name, answer.reason))
    return Advice(refusals=tuple(refusals))


def _of_fused(
    problem: Problem, session: Session, solvers: Sequence[Solver], fallback: Fallback
) -> Advice:
    """Ask about a problem without its epilogue, which costs all solvers about the same."""
    plain = {solver.solver_id.replace(Composed.suffix, ""): solver for solver in solvers}
    known = [session.registry.solver(solver_id) for solver_id in plain]
    advice = ask_heuristics(problem, session, known, fallback)
    predictions = tuple(
        one._replace(solver=plain[one.solver].solver_id) for one in advice.predictions
    )
    return replace(advice, predictions=predictions)


def _neighbours(heuristic: Heuristic, problem: Problem, session: Session) -> tuple[Neighbour, ...]:
    """The records that a heuristic wants; none where it fails."""
    if not _takes_neighbours(heuristic):
        return ()
    try:
        return tuple(heuristic.neighbours(problem, session.target, session.database.times))
    except Exception:
        return ()  # it is asked without


def _takes_neighbours(heuristic: Heuristic) -> TypeGuard[NeighbourHeuristic]:
    return hasattr(heuristic, "neighbours")  # `isinstance` costs more than a prediction


def _ask(
    heuristic: Heuristic,
    problem: Problem,
    session: Session,
    solvers: Sequence[Solver],
    neighbours: tuple[Neighbour, ...],
) -> tuple[Prediction, ...] | NotApplicable:
    """Ask one heuristic; an exception, or an answer beyond the question, is a refusal."""
    try:
        if _takes_neighbours(heuristic):
            answer = heuristic.predict(problem, session.target, solvers, neighbours)
        else:
            answer = heuristic.predict(problem, session.target, solvers)
        if isinstance(answer, NotApplicable):
            return answer
        predictions = tuple(answer)
        asked = {solver.solver_id for solver in solvers}
        sound = all(p.solver in asked and 0 < p.time_ms < math.inf for p in predictions)
    except Exception as error:
        return NotApplicable(f"{type(error).__name__}: {error}")
    if not predictions or not sound:
        return NotApplicable("its answer is no ranking of the solvers that it was asked about")
    return predictions


def _estimated(
    solver: Solver,
    problem: Problem,
    session: Session,
    policy: Policy,
    predicted: dict[str, Prediction],
) -> Solution:
    workspace = asking.workspace_size(solver, problem, session.target, policy.workspace_limit)
    estimate_ms, origin, confidence = _expected(solver, problem, session, policy, predicted)
    return Solution(
        solver=solver.solver_id,
        algorithm=solver.algorithm,
        problem=problem.key,
        device=session.target.identity,
        time_ms=None,
        estimate_ms=estimate_ms,
        time_origin=origin,
        workspace=workspace,
        over_limit=policy.is_over_limit(workspace),
        constant_weights=policy.constant_weights,
        confidence=confidence,
    )


def _expected(
    solver: Solver,
    problem: Problem,
    session: Session,
    policy: Policy,
    predicted: dict[str, Prediction],
) -> tuple[float | None, TimeOrigin, float | None]:
    """Return the estimate in ms, whose it is, and the confidence of a prediction."""
    prediction = predicted.get(solver.solver_id)
    if prediction is not None:
        return prediction.time_ms, TimeOrigin.PREDICTED, prediction.confidence
    if policy.fallback is not Fallback.GEMM and problem.is_measured:
        index = asking.wti(solver, problem, session.target)
        if index is not None and index > 0:
            return _WTI_SCALE_MS / index, TimeOrigin.WTI, None
    return None, TimeOrigin.NONE, None
