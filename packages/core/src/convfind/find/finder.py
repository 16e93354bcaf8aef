"""Find: from a problem to ranked solutions. Read this file first.

ConvProblem + Target -> recall (database) -> screen -> search (compile, verify, measure)
                                          -> or estimate -> ranked solutions -> record
"""

from __future__ import annotations

from dataclasses import replace

from convfind.find.budget import Budget
from convfind.find.immediate import estimate
from convfind.find.ranking import merged
from convfind.find.recall import Recalled, recall, unmeasured
from convfind.find.recording import forget, record
from convfind.find.result import FindOrigin, FindResult
from convfind.find.screening import screen
from convfind.find.tally import Tally
from convfind.policy import CheckHit, OnMiss, Policy
from convfind.problem import ConvProblem
from convfind.runtime.session import Progress, Session, silent


def find(
    problem: ConvProblem, session: Session, policy: Policy, progress: Progress = silent
) -> FindResult:
    """Return the solutions for a problem on the session's device, as the policy allows."""
    tally, budget = Tally(problem, session, policy), Budget(policy.time_budget)
    plain = problem.plain()
    if policy.forget:
        forget(plain, session, policy)
    known = recall(plain, session, policy) if policy.use_db else Recalled()

    if policy.on_miss is OnMiss.ESTIMATE:
        if known.answers:
            return tally.result(known.solutions, known.origin, known.rejected)
        # Estimates are for quick starts: one binary for many shapes, unless solvers are named.
        screening = screen(plain, session, policy, dynamic_only=policy.solvers is None)
        estimates = estimate(plain, session, policy, screening, known.solutions)
        return tally.result(estimates.solutions, FindOrigin.FALLBACK, estimates.rejected)

    if known.answers and policy.check_hit is not CheckHit.NO:
        from convfind.find.trust import check

        checked = check(plain, session, policy, known, budget)
        tally.measured += checked.measured
        if checked.holds:
            return tally.result(known.solutions, known.origin, known.rejected)
        if budget.is_spent and checked.solutions:
            return tally.result(checked.solutions, FindOrigin.MEASURED, checked.rejected)
        policy, known = replace(policy, retune=True, replace=True), Recalled()

    if known.answers:
        screening = unmeasured(plain, session, policy, known)
        if not screening.candidates:
            return tally.result(known.solutions, known.origin, known.rejected)
    else:
        screening = screen(plain, session, policy)
    # What measures is imported where something is measured: a database's answers do without.
    from convfind.find.search import Search

    session.registry.find_started(plain, session.target, len(screening.candidates))
    outcome = Search(plain, session, policy, progress, budget=budget).run(screening)
    tally.measured += len(outcome.trials)
    record(plain, session, policy, outcome)
    solutions = merged(outcome.solutions, known.solutions, policy.order)
    return tally.result(solutions, FindOrigin.MEASURED, outcome.rejected)
