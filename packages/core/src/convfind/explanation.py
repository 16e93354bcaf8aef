"""Explaining: every solver's answer to a problem, beside what is recorded and expected of it."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.applicability import APPLICABLE, Applicability
from convfind.find_policy import Policy
from convfind.problem import ConvProblem
from convfind.recall import recall
from convfind.screening import screen
from convfind.session import Session
from convfind.solution import Solution
from convfind.types import Algorithm


@dataclass(frozen=True, slots=True)
class ExplanationRow:
    """One solver: its answer, and for those that take the problem what is known about it."""

    solver: str
    algorithm: Algorithm
    applicability: Applicability
    wti: float | None = None
    workspace: int | None = None  # bytes, under the policy's limit
    solution: Solution | None = None  # as recorded


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every installed solver's answer to a problem, in the order of the lists."""

    problem: str
    plain: str  # the ordinary convolution that solvers see; differs for transposed problems
    device: str
    policy: Policy
    rows: tuple[ExplanationRow, ...]


def explain(problem: ConvProblem, session: Session, policy: Policy) -> Explanation:
    """Ask every solver; nothing is compiled or run."""
    plain = problem.plain()
    screening = screen(plain, session, policy)
    recorded = {s.solver: s for s in recall(plain, session, policy).solutions}
    rows = []
    for solver in session.registry.solvers:
        refusal = screening.rejected.get(solver.solver_id)
        if refusal is not None:
            rows.append(ExplanationRow(solver.solver_id, solver.algorithm, refusal))
            continue
        rows.append(
            ExplanationRow(
                solver.solver_id,
                solver.algorithm,
                APPLICABLE,
                solver.wti(plain, session.target),
                solver.workspace_size(plain, session.target, policy.workspace_limit),
                recorded.get(solver.solver_id),
            )
        )
    return Explanation(problem.key, plain.key, session.target.identity, policy, tuple(rows))
