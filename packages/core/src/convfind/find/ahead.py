"""Compiling ahead: what the finds of several problems compile first, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from convfind.checking.oracle import programs_for
from convfind.device.target import DeviceKind
from convfind.find.budget import Budget
from convfind.find.decision import Action, decide
from convfind.find.isolation.choice import is_isolated
from convfind.find.lineup import Lineup
from convfind.find.network_programs import Field, worthwhile
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Progress, Session, silent
from convfind.solver.kernel_spec import Program


def compile_ahead(
    problems: Iterable[Problem], session: Session, policy: Policy, progress: Progress = silent
) -> int:
    """Compile what finds of these problems would compile before they measure anything.

    The finds that follow have it in memory; what fails here they report. A time budget is for
    compiling ahead: what saves the network most comes first, and nothing begins once it is spent.
    Nothing happens for problems whose candidates run in a child.

    Returns:
        How many programs were compiled.
    """
    budget = Budget(policy.time_budget)
    if budget.is_spent:
        return 0
    problems = list(problems)
    programs = list(first_programs(problems, session, policy))
    if programs and policy.verify:
        plain = {problem.plain() for problem in problems}
        programs += programs_for(plain, session.target, session.registry)
    total, done, before = session.kernels.pending(programs), 0, session.kernels.compiled

    def count() -> None:
        nonlocal done
        done += 1
        progress("compile", done, total, "")

    session.kernels.load(programs, count, lambda: budget.is_spent)
    return session.kernels.compiled - before


def first_programs(
    problems: Iterable[Problem], session: Session, policy: Policy
) -> Collection[Program]:
    """Return what finds of these problems begin with: together, as far as a network is worth it.

    They are in the order in which they are worth it. Finds that follow know the solvers that are
    left out. A problem counts as often as it is given.
    """
    return _favoured(problems, session, policy)[1]


def favoured_programs(
    problems: Iterable[Problem], session: Session, policy: Policy
) -> dict[Problem, tuple[Program, ...]]:
    """Return the same for each plain problem that is measured, in the order of its solvers."""
    fields, chosen = _favoured(problems, session, policy)
    return {
        problem: tuple(
            dict.fromkeys(one for c in field.able(chosen).values() for one in c.programs)
        )
        for problem, field in fields.items()
    }


def _favoured(
    problems: Iterable[Problem], session: Session, policy: Policy
) -> tuple[dict[Problem, Field], dict[Program, None]]:
    fields, chosen = _opening(problems, session, policy)
    for problem, field in fields.items() if len(fields) > 1 else ():
        session.favoured[problem] = frozenset(field.able(chosen))
    return fields, chosen


def programs_of_networks(
    networks: Iterable[Sequence[Problem]], session: Session, policy: Policy
) -> dict[Program, tuple[str, ...]]:
    """Return what finds of each network begin with, and check with; the solvers of each program.

    Problems that the session has recorded are left out.
    """
    found: dict[Program, dict[str, None]] = {}
    checked: set[Problem] = set()
    for problems in networks:
        fields, chosen = _opening(problems, session, policy)
        checked |= fields.keys()
        for field in fields.values():
            for solver_id, contender in field.able(chosen).items():
                for program in contender.programs:
                    found.setdefault(program, {})[solver_id] = None
    checks = programs_for(checked, session.target, session.registry) if policy.verify else ()
    for program in checks:
        found.setdefault(program, {})
    return {program: tuple(solvers) for program, solvers in found.items()}


def _opening(
    problems: Iterable[Problem], session: Session, policy: Policy
) -> tuple[dict[Problem, Field], dict[Program, None]]:
    """Return the fields of those problems that finds measure here, and the programs they get."""
    fields: dict[Problem, Field] = {}
    for problem, count in Counter(problem.plain() for problem in problems).items():
        decision = decide(problem, session, policy)
        candidates = decision.screening.candidates
        # A child compiles by itself what might end this process.
        if decision.action is Action.MEASURE and not is_isolated(session, policy, candidates):
            usual = [one for one in candidates if not one.is_last_resort]
            lineup = Lineup.of(usual, problem, session, policy)
            fields[problem] = lineup.field(count, races=policy.races)
    # A CPU's compilers take the cores that are timed.
    beside = session.target.kind is not DeviceKind.CPU
    compilers = session.kernels.parallel_level if beside else 1
    chosen = worthwhile(list(fields.values()), session.kernels.is_ready, compilers)
    for field in fields.values():
        chosen |= dict.fromkeys(field.second(chosen))
    return fields, chosen
