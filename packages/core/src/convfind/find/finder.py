"""Find: from a problem to ranked solutions. Read this file first.

Problem + Target -> decide: recall (database), screen
                     -> answer, check, search (compile, verify, measure) or estimate
                     -> ranked solutions -> record
"""

from __future__ import annotations

from dataclasses import replace
from threading import TIMEOUT_MAX

from convfind.find.budget import Budget
from convfind.find.decision import Action, Decision, decide
from convfind.find.immediate import estimate
from convfind.find.ranking import merged
from convfind.find.recording import as_recorded, forget, record
from convfind.find.result import FindOrigin, FindResult
from convfind.find.tally import Tally
from convfind.log import logger
from convfind.policy import OnMiss, Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Progress, Session, silent


def find(
    problem: Problem, session: Session, policy: Policy, progress: Progress = silent
) -> FindResult:
    """Return the solutions for a problem on the session's device, as the policy allows.

    Finds that measure take turns. One whose budget ends while others measure answers by what is
    recorded, or by estimates.
    """
    tally, budget = Tally(problem, session, policy), Budget(policy.time_budget)
    plain = problem.plain()
    if policy.forget:
        forget(plain, session, policy)
    decision = decide(plain, session, policy)
    if not decision.measures:
        return _told(tally, plain, session, decision)
    if not session.turn.acquire(blocking=False):
        left = budget.left
        if not session.turn.acquire(timeout=-1 if left is None else min(left, TIMEOUT_MAX)):
            logger.warning(
                "%s: other finds took its time budget; answered without measuring", problem.text
            )
            hurried = replace(policy, on_miss=OnMiss.ESTIMATE)
            return _told(tally, plain, session, decide(plain, session, hurried))
        decision = decide(plain, session, policy)  # they may have found it
    try:
        return _measured(tally, plain, session, decision, budget, progress)
    finally:
        session.turn.release()


def _told(tally: Tally, plain: Problem, session: Session, decision: Decision) -> FindResult:
    """Return what is recorded, or estimates."""
    known = decision.known
    if decision.action is Action.ANSWER:
        return tally.answer(known)
    estimates = estimate(plain, session, decision.policy, decision.screening, known.solutions)
    return tally.result(estimates.solutions, FindOrigin.FALLBACK, estimates.rejected)


def _measured(
    tally: Tally,
    plain: Problem,
    session: Session,
    decision: Decision,
    budget: Budget,
    progress: Progress,
) -> FindResult:
    """Return what is measured now, with what is recorded."""
    policy = decision.policy
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
    if not decision.measures:
        return _told(tally, plain, session, decision)
    # Measuring is imported only where something is measured: a database's answers do without.
    from convfind.find.search import Search

    screening, known = decision.screening, decision.known
    session.registry.find_started(plain, session.target, len(screening.candidates))
    outcome = Search(plain, session, policy, progress, budget=budget).run(screening)
    tally.measured += len(outcome.trials)
    tally.is_in_doubt = record(plain, session, policy, outcome)
    solutions = outcome.solutions
    if known.solutions:
        solutions = as_recorded(solutions, plain, session, policy)
    solutions = merged(solutions, known.solutions, policy.order)
    return tally.result(solutions, FindOrigin.MEASURED, outcome.rejected)
