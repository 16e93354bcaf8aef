"""Find: from a problem to ranked solutions. Read this file first.

Problem + Target -> decide: recall (database), screen
                     -> answer, check, search (compile, verify, measure) or estimate
                     -> ranked solutions -> record
"""

from __future__ import annotations

from dataclasses import replace

from convfind.find.budget import Budget
from convfind.find.decision import Action, decide
from convfind.find.immediate import estimate
from convfind.find.ranking import merged
from convfind.find.recording import forget, record
from convfind.find.result import FindOrigin, FindResult
from convfind.find.tally import Tally
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Progress, Session, silent


def find(
    problem: Problem, session: Session, policy: Policy, progress: Progress = silent
) -> FindResult:
    """Return the solutions for a problem on the session's device, as the policy allows."""
    tally, budget = Tally(problem, session, policy), Budget(policy.time_budget)
    plain = problem.plain()
    if policy.forget:
        forget(plain, session, policy)
    decision = decide(plain, session, policy)

    if decision.action is Action.CHECK:
        from convfind.find.trust import check

        checked = check(plain, session, decision, budget)
        tally.measured += checked.measured
        if checked.holds:
            return tally.answer(decision.known)
        if budget.is_spent and checked.solutions:
            return tally.result(checked.solutions, FindOrigin.MEASURED, checked.rejected)
        policy = replace(policy, use_db=False, retune=True, replace=True)
        decision = decide(plain, session, policy)

    screening, known = decision.screening, decision.known
    if decision.action is Action.ANSWER:
        return tally.answer(known)
    if decision.action is Action.ESTIMATE:
        estimates = estimate(plain, session, policy, screening, known.solutions)
        return tally.result(estimates.solutions, FindOrigin.FALLBACK, estimates.rejected)
    # Measuring is imported only where something is measured: a database's answers do without.
    from convfind.find.search import Search

    session.registry.find_started(plain, session.target, len(screening.candidates))
    outcome = Search(plain, session, policy, progress, budget=budget).run(screening)
    tally.measured += len(outcome.trials)
    record(plain, session, policy, outcome)
    solutions = merged(outcome.solutions, known.solutions, policy.order)
    return tally.result(solutions, FindOrigin.MEASURED, outcome.rejected)
