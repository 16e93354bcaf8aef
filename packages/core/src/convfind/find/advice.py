"""`Advice`: the answers of heuristics about a problem on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from convfind.heuristics import (
    Heuristic,
    Neighbour,
    NeighbourHeuristic,
    NotApplicable,
    Prediction,
)
from convfind.kit.composed import Composed, without_epilogue
from convfind.policy import Fallback
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import Solver


@dataclass(frozen=True, slots=True)
class Advice:
    """The answers of heuristics: the ranking of the first that applies, and why others did not."""

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
        return tuple(heuristic.neighbours(problem, session.target, session.times))
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
