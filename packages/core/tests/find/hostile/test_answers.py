"""A solver that raises, or answers what cannot be, is refused by name; the find goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any, cast

import pytest

from convfind.device.target import Target
from convfind.errors import SolverError
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import Solver
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec
from convfind.solver.recipe import Launch, Recipe
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.testing.solvers import MockDynamic, MockTunable

pytestmark = pytest.mark.slow

HONEST = ("mock-hungry", "mock-packing", "mock-dynamic")


def recursion() -> Any:
    """Never end by itself."""
    return recursion()


def quits() -> Any:
    """Leave the program."""
    raise SystemExit(3)


def talks() -> Any:
    """Raise an error with very much to say."""
    raise RuntimeError("no\n" * 10 + "!" * 10_000)


class Mute(Exception):
    """An error whose text is another error."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def is_mute() -> Any:
    """Raise it."""
    raise Mute


FAILURES = [lambda: 1 // 0, recursion, quits, talks, is_mute, lambda: [].__getitem__(1)]


def failing(method: str, what: Callable[[], Any], base: type[Solver] = MockDynamic) -> Solver:
    """Return a solver one method of which does something else, and which comes first."""

    def act(*_: Any, **__: Any) -> Any:
        return what()

    ready = {"wti": lambda *_: 9.0, "workspace_size": lambda *_: 2**40}
    members: dict[str, Any] = {**ready, method: act, "solver_id": "mock-evil", "microseconds": 1}
    return cast(Solver, type("Failing", (base,), members)())


@pytest.mark.parametrize("mode", ["NORMAL", "HYBRID", "FAST"])
def test_an_index_that_is_next_to_nothing_ends_no_find(bench: Any, mode: str) -> None:
    field = [failing("wti", lambda: 1e-310)]
    handle = bench.open("mock-static", extra=field)
    for width in range(6, 12):  # enough for a session to learn from
        problem = ConvProblem.forward(x=(2, 4, width, width), w=(8, 4, 3, 3))
        assert handle.find(problem, mode).solutions


METHODS = ("applicability", "wti", "error_bound", "error_reach", "solution")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("failure", FAILURES)
def test_an_error_in_any_method_is_a_refusal(
    hostile: Any, method: str, failure: Callable[[], Any]
) -> None:
    hostile(failing(method, failure))


@pytest.mark.parametrize("method", ["search_space", "default_config"])
@pytest.mark.parametrize("failure", FAILURES)
def test_an_error_while_tuning_is_a_refusal(
    hostile: Any, method: str, failure: Callable[[], Any]
) -> None:
    class Explicit(MockTunable):
        """Needs no default config to describe its solution."""

        def solution(
            self,
            problem: ConvProblem,
            target: Target,
            config: Config | None = None,
            workspace_limit: int | None = None,
        ) -> Recipe:
            """Use the smallest tile."""
            return super().solution(problem, target, config or Config(tile=1), workspace_limit)

    hostile(failing(method, failure, Explicit), tune=True)


@pytest.mark.parametrize("failure", FAILURES)
def test_an_error_in_a_constraint_is_a_refusal(hostile: Any, failure: Callable[[], Any]) -> None:
    def space() -> SearchSpace:
        constraint = Constraint("moody", lambda config: cast(bool, failure()))
        return SearchSpace((Parameter("tile", (1, 2)),), (constraint,))

    hostile(failing("search_space", space, MockTunable), tune=True)


@pytest.mark.parametrize("failure", FAILURES)
def test_an_error_about_workspace_is_a_refusal_where_it_is_asked(
    hostile: Any, failure: Callable[[], Any]
) -> None:
    honest = ("mock-packing", "mock-dynamic")
    hostile(failing("workspace_size", failure), workspace_limit=2**19, honest=honest)


NONSENSE: list[tuple[str, Any]] = [
    *product(["applicability"], [True, None, "no", Rejected(cast(Any, "because"))]),
    *product(["wti"], ["fast", -1.0, math.nan, math.inf, True]),
    *product(["error_bound"], [math.inf, math.nan, 1e12, 0.5, -1, "1", None, True]),
    *product(["error_reach"], [-1, 1.5, "0", None, True]),
    *product(["solution"], [None, "kernel", {}, ()]),
]


@pytest.mark.parametrize(("method", "answer"), NONSENSE)
def test_an_answer_that_cannot_be_is_a_refusal(hostile: Any, method: str, answer: Any) -> None:
    found = hostile(failing(method, lambda: answer))
    assert found.rejected["mock-evil"].detail.startswith(method)


@pytest.mark.parametrize("answer", [-1, 1.5, "0", None, True])
def test_workspace_that_cannot_be_is_a_refusal(hostile: Any, answer: Any) -> None:
    honest = ("mock-packing", "mock-dynamic")
    solver = failing("workspace_size", lambda: answer)
    found = hostile(solver, workspace_limit=2**19, honest=honest)
    assert "workspace_size is" in found.rejected["mock-evil"].detail


def test_a_bound_is_named_with_what_it_may_be(hostile: Any) -> None:
    found = hostile(failing("error_bound", lambda: 1e12))
    expected = "error_bound is 1e+12; for 36 products of float32 it may be "
    assert found.rejected["mock-evil"].detail.startswith(expected)


class Altered(MockDynamic):
    """Spoils the recipe of a sound solver in some way, and comes first."""

    solver_id = "mock-evil"

    def __init__(self, change: Callable[[Recipe], Recipe]) -> None:
        self._change = change

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """More than everybody."""
        return 9.0

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take everything."""
        return super().applicability(problem, target)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Change what the sound one says."""
        return self._change(super().solution(problem, target, config, workspace_limit))


def with_program(recipe: Recipe, **changes: Any) -> Recipe:
    """Change the program of the only launch."""
    (launch,) = recipe.steps
    assert isinstance(launch, Launch)
    kernel = KernelSpec(replace(launch.kernel.program, **changes), launch.kernel.entry)
    return replace(recipe, steps=(replace(launch, kernel=kernel),))


MISSING = KernelSource("convfind.testing", "kernels/none.cl")
NO_PACKAGE = KernelSource("convfind.nowhere", "kernels/none.cl")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda recipe: replace(recipe, workspace=-4096), "workspace of its solution is -4096"),
        (lambda recipe: replace(recipe, workspace=0.5), "workspace of its solution is 0.5"),
        (lambda recipe: replace(recipe, packed="8"), "packed memory of its solution is '8'"),
        (lambda recipe: replace(recipe, config={"tile": 1}), "config of its solution is {'tile'"),
        (lambda recipe: replace(recipe, steps=None), "TypeError"),
        (lambda recipe: replace(recipe, steps=("run",)), "'run' is no step"),
        (lambda recipe: with_program(recipe, source=MISSING), "FileNotFoundError"),
        (lambda recipe: with_program(recipe, source=NO_PACKAGE), "ModuleNotFoundError"),
        (lambda recipe: with_program(recipe, defines=(("N", "a b"),)), "not a single C token"),
        (lambda recipe: with_program(recipe, defines=(("n", 1),)), "not an upper-case"),
    ],
)
def test_a_recipe_that_cannot_be_is_a_refusal(
    hostile: Any, change: Callable[[Recipe], Recipe], complaint: str
) -> None:
    found = hostile(Altered(change))
    assert complaint in found.rejected["mock-evil"].detail


# -- runtimes, and the user -----------------------------------------------------------------------


def test_a_kernel_that_raises_is_a_refusal(hostile: Any) -> None:
    def kernel(*_: Any) -> None:
        raise RecursionError

    class Raising(MockDynamic):
        """Runs it."""

        solver_id = "mock-evil"
        entry = "evil"

    found = hostile(Raising(), {"evil": kernel})
    assert found.rejected["mock-evil"].detail == "RecursionError"


def test_a_stray_error_of_a_runtime_costs_only_the_program(bench: Any, problem: Any) -> None:
    def stray(program: Any) -> bool:
        return dict(program.defines)["MICROSECONDS"] == 30 and cast(bool, [][1])

    for fault in ("build", "load"):
        setattr(bench.backend.faults, fault, stray)
        found = bench.open(*HONEST).find(problem, mode="normal", enforce="DB_UPDATE")
        assert found.rejected["mock-hungry"].reason is Reason.BUILD_FAILED
        assert "IndexError" in found.rejected["mock-hungry"].detail
        assert len(found.solutions) == 2
        setattr(bench.backend.faults, fault, lambda program: False)


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_is_the_users(bench: Any, problem: Any, method: str) -> None:
    def interrupt() -> Any:
        raise KeyboardInterrupt

    handle = bench.open(*HONEST, extra=[failing(method, interrupt)])
    with pytest.raises(KeyboardInterrupt):
        handle.find(problem, mode="normal")


# -- where nothing runs ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["applicability", "wti", "workspace_size"])
@pytest.mark.parametrize("failure", FAILURES)
def test_estimates_go_on_without_who_fails(
    bench: Any, problem: Any, method: str, failure: Callable[[], Any]
) -> None:
    handle = bench.open(*HONEST, extra=[failing(method, failure)])
    found = handle.find(problem, mode="fast")
    assert {solution.solver for solution in found.solutions} == set(HONEST)
    assert found.rejected["mock-evil"].reason is Reason.SOLVER_ERROR
    rows = {row.solver: row for row in handle.explain(problem).rows}
    assert rows["mock-evil"].applicability.reason is Reason.SOLVER_ERROR
    assert rows["mock-dynamic"].applicability


def test_preparing_what_fails_names_the_solver(bench: Any, problem: Any) -> None:
    solution = bench.open("mock-dynamic").find(problem, mode="normal").best
    handle = bench.open(extra=[failing("solution", lambda: None)])
    with pytest.raises(SolverError, match="mock-evil fails: solution is None, not a Recipe"):
        handle.prepare(replace(solution, solver="mock-evil"))
