"""Explaining: every solver's answer to a problem, beside what is recorded and expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from convfind.errors import SolverError
from convfind.find.advice import Advice, ask_heuristics
from convfind.find.decision import Action, Decision, decide
from convfind.find.forecast import Forecast
from convfind.find.known import Known, known
from convfind.find.race import Race
from convfind.find.recall import recall
from convfind.find.screening import screen
from convfind.find.solution import Solution
from convfind.heuristics import Prediction
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Session
from convfind.solver import asking
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
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
    prediction: Prediction | None = None  # by the heuristic that applies
    rank: int | None = None  # of the prediction, from 1
    forecast: Forecast | None = None  # by all that is known
    outrun: Rejected | None = None  # why a find that measures would begin without it


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every installed solver's answer to a problem, in the order of the lists."""

    problem: str
    plain: str  # the ordinary convolution that solvers see; differs for transposed problems
    device: str
    policy: Policy
    decision: Decision  # what a find would do, and why
    rows: tuple[ExplanationRow, ...]
    advice: Advice = field(default_factory=Advice)  # of the heuristics, about the rows that apply


def explain(problem: Problem, session: Session, policy: Policy) -> Explanation:
    """Ask every solver; nothing is compiled or run."""
    plain = problem.plain()
    decision = decide(plain, session, policy)
    here = decision.known if policy.use_db else recall(plain, session, policy)
    recorded = {solution.solver: solution for solution in here.solutions}
    screening = screen(plain, session, policy)
    advice = ask_heuristics(plain, session, screening.candidates, policy.fallback)
    ranks = {prediction.solver: rank for rank, prediction in enumerate(advice.predictions)}
    facts, outrun = _race(plain, session, policy, decision)
    rows = []
    for solver in session.registry.offered(plain):
        refusal = screening.rejected.get(solver.solver_id)
        if refusal is not None:
            rows.append(ExplanationRow(solver.solver_id, solver.algorithm, refusal))
            continue
        rank = ranks.get(solver.solver_id)
        try:
            wti = asking.wti(solver, plain, session.target)
            limit = policy.workspace_limit
            workspace = asking.workspace_size(solver, plain, session.target, limit)
        except SolverError as error:
            failure = Rejected(Reason.SOLVER_ERROR, error.detail)
            rows.append(ExplanationRow(solver.solver_id, solver.algorithm, failure))
            continue
        rows.append(
            ExplanationRow(
                solver.solver_id,
                solver.algorithm,
                APPLICABLE,
                wti,
                workspace,
                recorded.get(solver.solver_id),
                None if rank is None else advice.predictions[rank],
                None if rank is None else rank + 1,
                facts.forecasts.get(solver.solver_id),
                outrun.get(solver.solver_id),
            )
        )
    return Explanation(
        problem.text, plain.text, session.target.identity, policy, decision, tuple(rows), advice
    )


def _race(
    problem: Problem, session: Session, policy: Policy, decision: Decision
) -> tuple[Known, Mapping[str, Rejected]]:
    """Return the forecasts, and who by these alone cannot win where a find measures."""
    acts = (Action.MEASURE, Action.EXTEND, Action.ESTIMATE)
    if decision.action not in acts or not decision.is_measured:
        return Known(), {}
    candidates = decision.screening.candidates
    if decision.action is Action.ESTIMATE:
        return known(problem, session, candidates, policy), {}
    solvers = [one for one in candidates if not one.is_last_resort]
    facts = known(problem, session, solvers, policy)
    race = Race(facts, lambda solver: False)
    return facts, race.contenders(solvers, {})[1] if policy.races else {}
