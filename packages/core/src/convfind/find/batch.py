"""`find_all`: problems that are found as one batch, such as those of a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TypeAlias

from convfind.checking.oracle import programs_for
from convfind.checking.workbench import drawn_ahead
from convfind.device.target import DeviceKind
from convfind.find.ahead import compile_ahead, favoured_programs
from convfind.find.budget import Budget
from convfind.find.result import FindResult
from convfind.policy import OnMiss, Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Progress, Session

#: Finds one problem.
Find: TypeAlias = Callable[[Problem, Policy], FindResult]
#: The share of a budget that compiling ahead may take.
_AHEAD = 0.5


def find_all(
    problems: Iterable[Problem],
    session: Session,
    policy: Policy,
    find: Find,
    progress: Progress,
    time_budget: float | None = None,
) -> dict[Problem, FindResult]:
    """Find every distinct problem, in general those with most work first.

    A CPU's compilers take the cores that are timed, so there all that finds begin with is compiled
    before. A GPU measures the problems whose programs are compiled while the host compiles others.

    Args:
        problems: the problems, each as often as it occurs.
        session: what finds share.
        policy: that of each find.
        find: what finds one of them.
        progress: called with stage "find", problems done, problems in all, and a label.
        time_budget: seconds for all of them. Half of it is there to compile ahead; a problem gets
            an equal share of what is left. When nothing is left, the rest is estimated.
    """
    counts = Counter(problems)
    budget = Budget(time_budget)
    found: dict[Problem, FindResult] = {}
    with closing(_in_order(counts, session, policy, time_budget)) as order:
        for problem in order:
            progress("find", len(found), len(counts), str(problem))
            left = budget.left
            if left is None:
                allowed = policy
            elif left > 0:
                allowed = replace(policy, time_budget=left / (len(counts) - len(found)))
            else:
                allowed = replace(policy, use_db=True, on_miss=OnMiss.ESTIMATE)
            found[problem] = find(problem, allowed)
    progress("find", len(counts), len(counts), "")
    return found


def _in_order(
    counts: Counter[Problem], session: Session, policy: Policy, time_budget: float | None
) -> Generator[Problem]:
    """Yield the problems in the order in which they are found, and compile what they need."""
    distinct = sorted(counts, key=lambda problem: -problem.flops * counts[problem])
    is_limited = time_budget is not None or policy.time_budget is not None
    if is_limited or session.target.kind is DeviceKind.CPU:
        ahead = None if time_budget is None else time_budget * _AHEAD
        compile_ahead(counts.elements(), session, replace(policy, time_budget=ahead))
        yield from distinct
        return
    needed = favoured_programs(counts.elements(), session, policy)
    checks = programs_for(needed, session.target, session.registry) if policy.verify else ()
    of = {problem: needed.get(problem.plain(), ()) for problem in distinct}
    programs = [*checks, *(program for problem in distinct for program in of[problem])]
    waiting = list(distinct)
    drawn: Problem | None = None
    measured: set[Problem] = set()  # plain problems, once they are found or drawn ahead

    def missing(problem: Problem) -> int:
        return sum(map(session.kernels.is_underway, of[problem]))

    from concurrent.futures import FIRST_COMPLETED, wait

    with session.kernels.compiling(programs), ExitStack() as draws:
        while waiting:
            underway = session.kernels.underway()  # before anybody asks what is missing
            problem = min(waiting, key=lambda one: (missing(one), one.plain() != drawn))
            if missing(problem):
                wait(underway, None, FIRST_COMPLETED)
                continue
            waiting.remove(problem)
            measured.add(problem.plain())
            others = [one for one in waiting if one.plain() not in measured]
            if others and (drawn is None or problem.plain() == drawn):
                drawn = min(others, key=missing).plain()
                measured.add(drawn)
                if drawn in needed:
                    draws.enter_context(drawn_ahead(drawn, session))
            yield problem
