"""`check_solver`: checks that a solver keeps its contract, on a device, at edge cases."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import cache
from zlib import crc32

from convfind.errors import KernelBuildError
from convfind.problem import ConvProblem
from convfind.problem.traits import EPILOGUE_TRAITS
from convfind.runtime.backend import Device
from convfind.runtime.session import Session
from convfind.solver import Domain, Solver
from convfind.solver.applicability import Rejected
from convfind.testing.contract_checks import (
    check_applicability,
    check_dynamic,
    check_identity,
    check_solution,
    check_tuning,
)
from convfind.testing.device_checks import DeviceChecks
from convfind.testing.guarded_run import GuardedRunner
from convfind.testing.isolated_check import isolated_report
from convfind.testing.non_finite_checks import NonFiniteChecks
from convfind.testing.report import SolverReport
from convfind.testing.shapes import edge_cases, fused, variants
from convfind.types import Direction


def check_solver(
    solver: Solver,
    device: Device,
    *,
    shapes: Iterable[ConvProblem] | None = None,
    seed: int = 0,
    every_variant: bool = True,
) -> SolverReport:
    """Check a solver's contract without a device, then its results on one.

    A solver that is not of this project is checked in a child process, where another process can
    import it and open the device: a crash is a failure in the report.

    Args:
        solver: the solver.
        device: an opened device of any backend; the solver must take problems on it.
        shapes: problems to run; without them `convfind.testing.shapes.edge_cases`.
        seed: seed of the data.
        every_variant: run each problem in every direction, element type and layout that the solver
            takes, not only as it is given.

    A solver that declares epilogues runs one or two of the problems with one, too.

    Returns:
        A report; ``report.ok`` is the verdict, and ``str(report)`` lists every failure.
    """
    if shapes is None:
        problems = _built_in_problems(every_variant=every_variant)
    else:
        problems = _plain_problems(shapes, every_variant=every_variant)
    report = isolated_report(solver, device.target, _checked_in_child, problems, seed)
    return _checked(device, solver, problems, seed) if report is None else report


def _checked_in_child(
    session: Session, solver: Solver, problems: Sequence[ConvProblem], seed: int
) -> SolverReport:
    return _checked(session.device, solver, problems, seed)


def _checked(
    device: Device, solver: Solver, problems: Sequence[ConvProblem], seed: int
) -> SolverReport:
    target = device.target
    report = SolverReport(solver.solver_id, target.identity)
    check_identity(report, solver)
    if not isinstance(solver.domain, Domain):
        return report
    check_applicability(report, solver, target, problems)
    if any(failure.check in ("never raises", "error bound") for failure in report.failures):
        return report
    runner = GuardedRunner(device)
    on_device = DeviceChecks(report, solver, target, runner, seed)
    not_finite = NonFiniteChecks(report, solver, seed)

    def check(problem: ConvProblem) -> bool:
        """Check one problem that the solver takes; return whether it ran correctly."""
        solution = check_solution(report, solver, problem, target)
        if solution is None:
            return False
        check_tuning(report, solver, problem, target)
        if solver.is_dynamic:
            check_dynamic(report, solver, problem, target, solution)
        try:
            runner.load(solution)
        except KernelBuildError as error:
            report.fail("build", problem.key, f"{error}\n{error.log}")
            return False
        correct = on_device.check(problem, solution)
        if correct is not None:
            not_finite.check(correct)
        return correct is not None

    ran = []
    for problem in problems:
        answer = solver.takes(problem, target)
        if isinstance(answer, Rejected):
            report.rejected[problem.key] = str(answer)
        elif check(problem):
            ran.append(problem)
    count = len(report.problems)
    for problem in _with_epilogues(solver, ran):
        if solver.takes(problem, target):
            check(problem)
    report.with_epilogue += report.problems[count:]
    del report.problems[count:]
    return report


def _with_epilogues(solver: Solver, ran: Sequence[ConvProblem]) -> tuple[ConvProblem, ...]:
    """Return few problems, for they are the same kernels, with all that the solver declares."""
    traits = solver.domain.traits & EPILOGUE_TRAITS
    plain = [p for p in ran if p.direction is not Direction.BACKWARD_WEIGHTS and not p.is_fused]
    if not traits or not plain:
        return ()
    draw = crc32(solver.solver_id.encode())
    chosen = {plain[draw % len(plain)], plain[-1]} if len(plain) > 8 else {plain[draw % len(plain)]}
    return tuple(fused(problem, traits) for problem in plain if problem in chosen)


def assert_solver(
    solver: Solver,
    device: Device,
    *,
    shapes: Iterable[ConvProblem] | None = None,
    seed: int = 0,
    every_variant: bool = True,
) -> SolverReport:
    """Raise `AssertionError` with the whole report if `check_solver` finds a failure."""
    report = check_solver(solver, device, shapes=shapes, seed=seed, every_variant=every_variant)
    if not report.ok:
        raise AssertionError(str(report))
    return report


@cache
def _built_in_problems(*, every_variant: bool) -> tuple[ConvProblem, ...]:
    """Return the same problems for one solver after the other: a thousand take long to make."""
    return _plain_problems(edge_cases(), every_variant=every_variant)


def _plain_problems(
    shapes: Iterable[ConvProblem], *, every_variant: bool
) -> tuple[ConvProblem, ...]:
    """Return distinct problems as a solver sees them, in order."""
    asked = itertools.chain.from_iterable(map(variants, shapes)) if every_variant else shapes
    return tuple(dict.fromkeys(problem.plain() for problem in asked))
