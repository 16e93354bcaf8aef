"""Checks of a solver's contract that need no device."""

from __future__ import annotations

import pickle
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FrameType

from convfind.checking.accuracy import bound_of
from convfind.device.target import DeviceKind, Target
from convfind.errors import SolverError
from convfind.kit.completed import Completed
from convfind.kit.completions import own_id
from convfind.problem import ConvProblem
from convfind.problem.traits import Trait
from convfind.reasons import Reason
from convfind.solver import Domain, Solver, TunableSolver, asking
from convfind.solver.applicability import Applicable, Rejected
from convfind.solver.recipe import Launch, Recipe
from convfind.testing.report import SolverReport
from convfind.testing.shapes import weird_problems, with_unknown_trait
from convfind.types import Algorithm

#: Function calls that an answer may take, about a tenth of a microsecond each. They are counted,
#: not timed, so that a busy machine makes no difference.
MOST_CALLS = 1000
#: Costs that calls do not show, such as reading a file or a long loop in a library, are compared
#: with the construction of problems at the same time: an answer may take as long as this many.
MOST_PROBLEMS = 40

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def check_identity(report: SolverReport, solver: Solver) -> None:
    """Check that id, version and algorithm are well-formed and the solver has no state."""
    is_completed = isinstance(solver, Completed)
    if not _ID.fullmatch(own_id(solver.solver_id) if is_completed else solver.solver_id):
        report.fail("id", "", f"{solver.solver_id!r} is not <family>-<variant> in kebab case")
    if type(solver.version) is not int or solver.version < 1:
        report.fail("version", "", f"{solver.version!r} is not a whole number from 1 on")
    if not isinstance(solver.algorithm, Algorithm):
        report.fail("algorithm", "", f"{solver.algorithm!r} is not one of {', '.join(Algorithm)}")
    if isinstance(solver.backends, str) or not all(isinstance(b, str) for b in solver.backends):
        report.fail("backends", "", f"{solver.backends!r} is not a tuple of names")
    if isinstance(solver.domain, Domain):
        _check_domain(report, solver.domain)
    else:
        report.fail("domain", "", f"{solver.domain!r} is not a Domain")


def _check_domain(report: SolverReport, domain: Domain) -> None:
    if unknown := domain.traits.difference(Trait):
        report.fail("domain", "", f"no traits of problems: {', '.join(sorted(unknown))}")
    if unknown_ranks := set(domain.ranks).difference((1, 2, 3)):
        report.fail("domain", "", f"no numbers of spatial dimensions: {unknown_ranks}")
    for name in ("directions", "kinds", "dtypes", "ranks"):
        if not getattr(domain, name):
            report.fail("domain", "", f"{name} is empty, so it takes nothing")


def check_applicability(
    report: SolverReport, solver: Solver, target: Target, problems: Iterable[ConvProblem]
) -> None:
    """Check that answers are `Applicable` or `Rejected`, repeatable, quick, without exceptions."""
    strangers = [problem.plain() for problem in weird_problems()]
    asked = [*strangers, *problems]
    state = _state(solver)
    for place in _targets_like(target):
        for problem in asked:
            _check_answer(report, solver, problem, place)
    for problem in asked[-3:]:
        if not isinstance(solver.takes(with_unknown_trait(problem), target), Rejected):
            report.fail("domain", problem, "takes a problem with a trait that it cannot know")
    if _state(solver) != state:
        report.fail("stateless", "", "asking changed the solver's attributes")
    for problem in asked[-3:]:
        _check_effort(report, solver, problem, target)


def _check_effort(
    report: SolverReport, solver: Solver, problem: ConvProblem, target: Target
) -> None:
    def answer() -> None:
        solver.takes(problem, target)

    if (calls := _calls(answer)) > MOST_CALLS:
        report.fail("applicability is quick", problem, f"takes {calls} calls of functions")
        return
    turns = [(_seconds(answer), _seconds(lambda: replace(problem))) for _ in range(20)]
    best, of_problem = map(min, zip(*turns, strict=True))
    if best > MOST_PROBLEMS * of_problem:
        as_many = f"takes as long as making {best / of_problem:.0f} problems"
        report.fail("applicability is quick", problem, as_many)


def _travelled(solution: Recipe) -> object:
    try:
        return pickle.loads(pickle.dumps(solution))
    except Exception as error:
        msg = f"the solution does not pickle: {error}"
        raise TypeError(msg) from error


def check_solution(
    report: SolverReport, solver: Solver, problem: ConvProblem, target: Target
) -> Recipe | None:
    """Check that the solution is picklable, its memory as announced, and its sources exist."""
    try:
        solution = solver.solution(problem, target)
        announced = solver.workspace_size(problem, target)
        restored = _travelled(solution)
        again = solver.solution(problem, target)
        for program in solution.programs:
            if not program.source.text:
                report.fail("source", problem, f"{program.source} is empty")
            program.all_options  # noqa: B018 - raises where a define is malformed
    except Exception as error:
        report.fail("solution", problem, f"raised {type(error).__name__}: {error}")
        return None
    if restored != solution:
        report.fail("picklable", problem, "the solution changes when it is pickled")
    if again != solution:
        report.fail("pure", problem, "asked twice, the solver describes two solutions")
    if solution.solver != solver.solver_id:
        report.fail("solution id", problem, f"says {solution.solver!r}, not {solver.solver_id!r}")
    if announced != solution.total_workspace:
        report.fail(
            "workspace size",
            problem,
            f"workspace_size says {announced}, the solution {solution.total_workspace} bytes",
        )
    _check_steps(report, problem, solution)
    return solution


def check_dynamic(
    report: SolverReport, solver: Solver, problem: ConvProblem, target: Target, first: Recipe
) -> None:
    """Check that a dynamic solver uses the same programs for other batch and image sizes."""
    config = None
    if isinstance(solver, TunableSolver):
        config = solver.default_config(problem, target)
    for other in _resized(problem):
        if not solver.takes(other, target):
            continue
        if (
            isinstance(solver, TunableSolver)
            and config is not None
            and config not in solver.search_space(other, target)
        ):
            continue
        if solver.solution(other, target, config).programs != first.programs:
            report.fail("dynamic", problem, f"compiles another program for {other}")
            return


def check_tuning(
    report: SolverReport, solver: Solver, problem: ConvProblem, target: Target
) -> None:
    """Check that a tunable solver's default config is legal and its parameters well-formed."""
    if not isinstance(solver, TunableSolver):
        return
    space = solver.search_space(problem, target)
    default = solver.default_config(problem, target)
    if default not in space:
        report.fail("default config", problem, f"{default} is not legal: {space.fault(default)}")
    for parameter in space.parameters:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", parameter.name) or not parameter.values:
            report.fail("search space", problem, f"parameter {parameter.name!r} is malformed")


def _check_answer(
    report: SolverReport, solver: Solver, problem: ConvProblem, target: Target
) -> None:
    try:
        first, second = (solver.takes(problem, target) for _ in range(2))
        if first:
            size = solver.workspace_size(problem, target)
            wti = solver.wti(problem, target)
            if type(size) is not int or size < 0:
                report.fail("workspace size", problem, f"{size!r} is not a number of bytes")
            if wti is not None and not wti >= 0:
                report.fail("wti", problem, f"{wti!r} is neither None nor a number from 0 on")
            _check_accuracy(report, solver, problem)
    except Exception as error:
        report.fail("never raises", problem, f"raised {type(error).__name__}: {error}")
        return
    if not isinstance(first, (Applicable, Rejected)):
        report.fail("applicability", problem, f"answered {first!r}, not Applicable or Rejected")
    elif isinstance(first, Rejected) and not isinstance(first.reason, Reason):
        report.fail("applicability", problem, f"{first.reason!r} is no `Reason`")
    if first != second:
        report.fail("pure", problem, f"answered {first} and then {second}")


def _check_accuracy(report: SolverReport, solver: Solver, problem: ConvProblem) -> None:
    try:
        bound_of(solver, problem)
        asking.error_reach(solver, problem)
    except SolverError as error:
        report.fail("error bound", problem, error.detail)


def _check_steps(report: SolverReport, problem: ConvProblem, solution: Recipe) -> None:
    for step in (*solution.prepare, *solution.steps):
        if not isinstance(step, Launch):
            continue
        items, group = step.global_size, step.local_size
        if len(items) != len(group) or any(a % b for a, b in zip(items, group, strict=True)):
            report.fail(
                "launch", problem, f"{step.kernel.entry}: groups of {group} do not divide {items}"
            )


def _targets_like(target: Target) -> tuple[Target, ...]:
    """Return the target, and variants of it that lack its features."""
    other = DeviceKind.GPU if target.kind is DeviceKind.CPU else DeviceKind.CPU
    poor = replace(target, identity="", features=frozenset(), local_memory=0, max_work_group=1)
    return target, replace(target, identity="", kind=other), poor


def _resized(problem: ConvProblem) -> tuple[ConvProblem, ...]:
    batch, channels, *spatial = problem.x_shape
    if not problem.is_packed:
        return ()
    larger = replace(problem, x_shape=(batch, channels, *(size + 2 for size in spatial)))
    return problem.with_batch(batch + 1), larger, larger.with_batch(2 * batch)


def _state(solver: Solver) -> dict[str, object]:
    return dict(getattr(solver, "__dict__", {}))


def _calls(action: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: FrameType | None, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
