"""Calls to solvers: the only place where core calls them and validates their answers.

Solvers are third-party code. Every exception and every impossible answer becomes a `SolverError`,
which excludes that solver and affects no other.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from numbers import Integral, Real
from typing import ParamSpec, TypeVar

from convfind.device.target import Target
from convfind.errors import SolverError
from convfind.problem.contract import Problem
from convfind.problem.traits import Trait
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Applicable, Rejected
from convfind.solver.config import Config
from convfind.solver.contract import Solver, TunableSolver
from convfind.solver.recipe import Fill, Launch, LibraryGemm, Recipe
from convfind.solver.search_space import SearchSpace

P = ParamSpec("P")
T = TypeVar("T")

#: Exceptions that plugins and runtimes may raise without ending a find. An interrupt is the user's.
FAILURES = (Exception, SystemExit)

_LONGEST = 300  # characters of a reason that is passed on
_MIXES = Rejected(
    Reason.ACCURACY, "mixes values, and accuracy=strict wants sums of a result's own products"
)


def applicability(solver: Solver, problem: Problem, target: Target) -> Applicability:
    """Ask whether a solver takes a problem; a failure of the solver is a refusal."""
    try:
        refused = solver.domain.refusal(problem, target)
    except FAILURES as error:
        return Rejected(Reason.SOLVER_ERROR, told(error))
    return sizes(solver, problem, target) if refused is None else refused


def sizes(solver: Solver, problem: Problem, target: Target) -> Applicability:
    """Ask whether a solver takes a problem that is known to lie in its domain.

    It does not take a problem with the trait ``strict`` if it mixes values.
    """
    try:
        answer = solver.applicability(problem, target)
        if answer and Trait.STRICT in problem.traits and solver.mixes_values(problem):
            return _MIXES
    except FAILURES as error:
        return Rejected(Reason.SOLVER_ERROR, told(error))
    if answer is APPLICABLE or isinstance(answer, Applicable):
        return APPLICABLE
    if not isinstance(answer, Rejected) or not isinstance(answer.reason, Reason):
        return Rejected(Reason.SOLVER_ERROR, f"applicability returned {_shown(answer)}")
    return answer


def workspace_size(
    solver: Solver, problem: Problem, target: Target, limit: int | None = None
) -> int:
    """Ask for the bytes of workspace. Raises `SolverError`."""
    size = _asked(solver, solver.workspace_size, problem, target, limit)
    return _count(solver, "workspace_size", size)


def wti(solver: Solver, problem: Problem, target: Target) -> float | None:
    """Ask for the weighted throughput index; 0 below what a float holds in full.

    Times are its inverse, which is to be a number. Raises `SolverError`.
    """
    index = _asked(solver, solver.wti, problem, target)
    if index is None:
        return None
    asked = _number(solver, "wti", index, least=0.0)
    return asked if asked >= sys.float_info.min else 0.0


def error_bound(solver: Solver, problem: Problem) -> float:
    """Ask how far errors may exceed those of plain sums: 1 or more. Raises `SolverError`."""
    factor = _asked(solver, solver.error_bound, problem)
    return _number(solver, "error_bound", factor, least=1.0)


def error_reach(solver: Solver, problem: Problem) -> int:
    """Ask how far errors spread, in elements. Raises `SolverError`."""
    return _count(solver, "error_reach", _asked(solver, solver.error_reach, problem))


def result_roundings(solver: Solver) -> int:
    """Read how often a result is rounded to its type. Raises `SolverError`."""
    return _count(solver, "result_roundings", solver.result_roundings)


def search_space(solver: TunableSolver, problem: Problem, target: Target) -> SearchSpace:
    """Ask for the search space. Raises `SolverError`; the space's constraints may still raise."""
    space = _asked(solver, solver.search_space, problem, target)
    return _instance(solver, "search_space", space, SearchSpace)


def sample(
    solver: TunableSolver, problem: Problem, target: Target, count: int, seed: int
) -> list[Config]:
    """Draw legal configs from the search space. Raises `SolverError`."""
    return _asked(solver, search_space(solver, problem, target).sample, count, seed)


def default_config(solver: TunableSolver, problem: Problem, target: Target) -> Config:
    """Ask for the default config. Raises `SolverError`."""
    config = _asked(solver, solver.default_config, problem, target)
    return _instance(solver, "default_config", config, Config)


def recipe(
    solver: Solver,
    problem: Problem,
    target: Target,
    config: Config | None = None,
    workspace_limit: int | None = None,
) -> Recipe:
    """Ask for a recipe, and validate all of it: memory, steps, kernel files, macros.

    Raises:
        SolverError: the solver fails, or its recipe is invalid.
    """
    built = _asked(solver, solver.solution, problem, target, config, workspace_limit)
    built = _instance(solver, "solution", built, Recipe)
    _count(solver, "workspace of its solution", built.workspace)
    _count(solver, "packed memory of its solution", built.packed)
    if built.config is not None:
        _instance(solver, "config of its solution", built.config, Config)
    _asked(solver, _look_at, built)
    return built


def remembered_recipe(
    solver: Solver,
    problem: Problem,
    target: Target,
    config: Config | None = None,
    workspace_limit: int | None = None,
) -> Recipe:
    """Return `recipe`'s answer, cached: who is validated or compiled ahead soon runs."""
    try:
        return _remembered(solver, problem, target, config, workspace_limit)
    except SolverError:
        raise
    except FAILURES:  # a solver that does not even hash
        return recipe(solver, problem, target, config, workspace_limit)


_remembered = lru_cache(maxsize=1024)(recipe)


def config_fault(
    solver: Solver,
    problem: Problem,
    target: Target,
    config: Config | None,
    workspace_limit: int | None = None,
) -> str | None:
    """Return why a config from a file or a record must not be used; None if it may.

    It may if it lies in the solver's search space or equals the solver's own choice. Any other
    config may make kernels read and write out of bounds. Raises `SolverError`.
    """
    if config is None:
        return None
    why: str | None = f"{solver.solver_id} has no parameters"
    if isinstance(solver, TunableSolver):
        space = search_space(solver, problem, target)
        why = _asked(solver, space.fault, config)
        if why is None:
            return None
    own = remembered_recipe(solver, problem, target, None, workspace_limit).config
    return None if own is not None and own.is_same(config) else why


def told(error: BaseException) -> str:
    """Return an error's text as one line of bounded length."""
    try:
        text = str(error)
    except FAILURES:
        text = "(its text raises, too)"
    first = text.strip().partition("\n")[0]
    return _cut(f"{type(error).__name__}: {first}" if first else type(error).__name__)


def _asked(solver: Solver, question: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    try:
        return question(*arguments, **named)
    except SolverError:
        raise
    except FAILURES as error:
        raise SolverError(solver.solver_id, told(error)) from error


def _look_at(built: Recipe) -> None:
    """Read everything that only a later stage would read. Raises whatever is wrong."""
    for step in (*built.prepare, *built.steps):
        if not isinstance(step, (Launch, Fill, LibraryGemm)):
            msg = f"{_shown(step)} is no step"
            raise TypeError(msg)
    for program in built.programs:
        program.source.text  # noqa: B018 - raises where the file is missing
        program.all_options  # noqa: B018 - raises where a macro cannot be


def _count(solver: Solver, what: str, value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = _asked(solver, int, value)
        if number >= 0:
            return number
    raise SolverError(solver.solver_id, f"{what} is {_shown(value)}, not a number from 0 on")


def _number(solver: Solver, what: str, value: object, *, least: float) -> float:
    if isinstance(value, Real) and not isinstance(value, bool):
        number = _asked(solver, float, value)
        if math.isfinite(number) and number >= least:
            return number
    detail = f"{what} is {_shown(value)}, not a finite number from {least:g} on"
    raise SolverError(solver.solver_id, detail)


def _instance(solver: Solver, what: str, value: object, kind: type[T]) -> T:
    if isinstance(value, kind):
        return value
    raise SolverError(solver.solver_id, f"{what} is {_shown(value)}, not a {kind.__name__}")


def _shown(value: object) -> str:
    try:
        return _cut(repr(value))
    except FAILURES:
        return f"a {type(value).__name__}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
