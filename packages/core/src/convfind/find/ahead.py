"""Compiling ahead: what the finds of several problems compile first, side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from convfind.find.decision import Action, decide
from convfind.find.isolation.choice import is_isolated
from convfind.find.search import Search
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Progress, Session, silent
from convfind.solver.kernel_spec import Program


def compile_ahead(
    problems: Iterable[Problem], session: Session, policy: Policy, progress: Progress = silent
) -> int:
    """Compile what finds of these problems would compile before they measure anything.

    The finds that follow have it in memory; what fails here they report. With a time budget
    nothing happens: it is each find's own. Nor for problems whose candidates run in a child.

    Returns:
        How many programs were compiled.
    """
    if policy.time_budget is not None:
        return 0
    programs = first_programs(problems, session, policy)
    total, done, before = session.kernels.pending(programs), 0, session.kernels.compiled

    def count() -> None:
        nonlocal done
        done += 1
        progress("compile", done, total, "")

    session.kernels.load(programs, count)
    return session.kernels.compiled - before


def first_programs(
    problems: Iterable[Problem], session: Session, policy: Policy
) -> Collection[Program]:
    """Return what finds of these problems would compile before they measure anything."""
    programs: dict[Program, None] = {}
    for problem in dict.fromkeys(problem.plain() for problem in problems):
        decision = decide(problem, session, policy)
        candidates = decision.screening.candidates
        # A child compiles by itself what might end this process.
        if decision.action is Action.MEASURE and not is_isolated(session, policy, candidates):
            search = Search(problem, session, policy, silent)
            programs |= dict.fromkeys(search.first_programs(decision.screening))
    return programs.keys()
