"""Find: from a problem to ranked solutions. Read this file first.

ConvProblem + Target -> recall (database) -> screen -> search (compile, verify, measure)
                                          -> or estimate -> ranked solutions -> store
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from convfind.find_policy import CheckHit, OnMiss, Policy
from convfind.find_result import FindOrigin, FindResult
from convfind.immediate import estimate
from convfind.problem import ConvProblem
from convfind.ranking import ranked
from convfind.recall import Recalled, recall, unmeasured
from convfind.recording import store
from convfind.screening import Screening, screen
from convfind.search import Search, SearchOutcome
from convfind.session import Progress, Session, silent
from convfind.solution import Solution
from convfind.tally import Tally


def find(
    problem: ConvProblem, session: Session, policy: Policy, progress: Progress = silent
) -> FindResult:
    """Return the solutions for a problem on the session's device, as the policy allows."""
    tally = Tally(problem, session, policy)
    plain = problem.plain()
    if policy.forget:
        session.database.remove(session.target, plain)
    recalled = recall(plain, session, policy) if policy.use_db else Recalled()
    if policy.on_miss is OnMiss.ESTIMATE:
        if recalled.answers:
            return tally.result(recalled.solutions, recalled.origin, recalled.rejected)
        # Estimates are for quick starts: one binary for many shapes, unless solvers are named.
        screening = screen(plain, session, policy, dynamic_only=policy.solvers is None)
        solutions = (*recalled.solutions, *estimate(plain, session, policy, screening))
        return tally.result(_fastest(solutions, policy), FindOrigin.FALLBACK, screening.rejected)
    if recalled.answers and policy.check_hit is not CheckHit.NO:
        checked = _check(plain, session, policy, recalled, tally)
        if checked is not None:
            return tally.result(checked, recalled.origin, recalled.rejected)
        # What was recorded is not true any more: find anew, and tune.
        policy, recalled = replace(policy, retune=True, replace=True), Recalled()
    if recalled.answers:
        screening = unmeasured(plain, session, policy, recalled)
        if not screening.candidates:
            return tally.result(recalled.solutions, recalled.origin, recalled.rejected)
    else:
        screening = screen(plain, session, policy)
    outcome = _search(plain, session, policy, screening, progress, tally)
    store(plain, session, policy, outcome)
    solutions = _fastest((*outcome.solutions, *recalled.solutions), policy)
    return tally.result(solutions, FindOrigin.MEASURED, outcome.rejected)


def _search(
    plain: ConvProblem,
    session: Session,
    policy: Policy,
    screening: Screening,
    progress: Progress,
    tally: Tally,
) -> SearchOutcome:
    session.registry.find_started(plain, session.target, len(screening.candidates))
    outcome = Search(plain, session, policy, progress).run(screening)
    tally.measured += len(outcome.trials)
    return outcome


def _check(
    plain: ConvProblem, session: Session, policy: Policy, recalled: Recalled, tally: Tally
) -> tuple[Solution, ...] | None:
    """Run recorded solutions again. None where one is slower than the tolerance, or fails."""
    usable = [solution for solution in recalled.solutions if not solution.over_limit]
    chosen = usable if policy.check_hit is CheckHit.ALL else usable[:1]
    configs = {s.solver: s.config for s in chosen if s.config is not None}
    search = Search(plain, session, replace(policy, tune=False), silent, configs)
    outcome = search.run(
        Screening(tuple(session.registry.solver(solution.solver) for solution in chosen))
    )
    tally.measured += len(outcome.trials)
    now = {solution.solver: solution.time_ms for solution in outcome.solutions}
    for solution in chosen:
        if now.get(solution.solver, float("inf")) > solution.time_ms * (1 + policy.tolerance):
            return None
    store(plain, session, policy, outcome)
    return recalled.solutions


def _fastest(solutions: Iterable[Solution], policy: Policy) -> tuple[Solution, ...]:
    """Rank, with one solution for each solver: the first of those given."""
    first: dict[str, Solution] = {}
    for solution in solutions:
        first.setdefault(solution.solver, solution)
    return ranked(first.values(), policy.order)
