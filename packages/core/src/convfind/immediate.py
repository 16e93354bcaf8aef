"""Immediate mode's fallback: solutions with estimates where no record exists; nothing runs."""

from __future__ import annotations

from convfind.find_policy import Fallback, Policy
from convfind.heuristics import Prediction
from convfind.problem import ConvProblem
from convfind.ranking import ranked
from convfind.screening import Screening
from convfind.session import Session
from convfind.solution import Solution, TimeOrigin
from convfind.solver import Solver
from convfind.types import Algorithm

#: The time given to an index of 1, in ms, as MIOpen has it: a scale for comparing, no prediction.
_WTI_SCALE_MS = 10.0


def estimate(
    problem: ConvProblem, session: Session, policy: Policy, screening: Screening
) -> tuple[Solution, ...]:
    """Rank the candidates of a plain problem: heuristic, then throughput index, then list order.

    ``policy.fallback`` starts the chain further down: "wti" skips the heuristics, "gemm" leaves
    GEMM and the last resorts only. Times are negative, since nobody measured them.
    """
    solvers = screening.candidates
    if policy.fallback is Fallback.GEMM:
        solvers = tuple(s for s in solvers if s.algorithm is Algorithm.GEMM or s.is_last_resort)
    predicted = _predict(problem, session, policy, solvers)
    return ranked(
        (_estimated(solver, problem, session, policy, predicted) for solver in solvers),
        policy.order,
    )


def _predict(
    problem: ConvProblem, session: Session, policy: Policy, solvers: tuple[Solver, ...]
) -> dict[str, Prediction]:
    """Ask the heuristics in turn; the first that knows the device and the problem decides."""
    if policy.fallback is not Fallback.AI:
        return {}
    ids = [solver.solver_id for solver in solvers]
    for heuristic in session.registry.heuristics:
        try:
            predictions = heuristic.predict(problem, session.target, ids)
        except Exception:
            continue
        if predictions:
            return {prediction.solver: prediction for prediction in predictions}
    return {}


def _estimated(
    solver: Solver,
    problem: ConvProblem,
    session: Session,
    policy: Policy,
    predicted: dict[str, Prediction],
) -> Solution:
    limit = policy.workspace_limit
    workspace = solver.workspace_size(problem, session.target, limit)
    time_ms, origin, confidence = _time(solver, problem, session, policy, predicted)
    return Solution(
        solver=solver.solver_id,
        algorithm=solver.algorithm,
        problem=problem.key,
        device=session.target.identity,
        time_ms=time_ms,
        time_origin=origin,
        workspace=workspace,
        over_limit=limit is not None and workspace > limit,
        constant_weights=policy.constant_weights,
        confidence=confidence,
    )


def _time(
    solver: Solver,
    problem: ConvProblem,
    session: Session,
    policy: Policy,
    predicted: dict[str, Prediction],
) -> tuple[float, TimeOrigin, float | None]:
    prediction = predicted.get(solver.solver_id)
    if prediction is not None:
        return -prediction.time_ms, TimeOrigin.PREDICTED, prediction.confidence
    if policy.fallback is not Fallback.GEMM:
        index = solver.wti(problem, session.target)
        if index is not None and index > 0:
            return -_WTI_SCALE_MS / index, TimeOrigin.WTI, None
    return -1.0, TimeOrigin.NONE, None
