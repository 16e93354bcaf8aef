"""What plugins register is checked, ordered and found again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from convfind.device.target import Target
from convfind.errors import BackendUnavailableError, SolutionError
from convfind.find.result import FindOrigin, FindResult
from convfind.find.solution import Solution, TimeOrigin
from convfind.plugins import hookimpl
from convfind.plugins.registry import (
    BackendRegistry,
    HeuristicRegistry,
    Registry,
    SolverRegistry,
    default_registry,
)
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.settings import PluginSelection
from convfind.solver import Solver
from convfind.solver.applicability import APPLICABLE, Applicability
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe
from convfind.testing.mock_backend import MOCK_TARGET, MockBackend
from convfind.types import Algorithm

PROBLEM = ConvProblem.forward(x=(1, 1, 3, 3), w=(1, 1, 3, 3))


class AnySolver(Solver):
    algorithm = Algorithm.DIRECT

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        return APPLICABLE

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        return Recipe(self.solver_id, ())


def solver(solver_id: object, **attributes: object) -> Solver:
    kind = type("Made", (AnySolver,), {"solver_id": solver_id, **attributes})
    made = kind()
    assert isinstance(made, Solver)
    return made


class Solvers:
    """A plugin with solvers."""

    def __init__(self, name: str, *solvers: Any) -> None:
        self.__name__ = name
        self.solvers = solvers

    @hookimpl
    def convfind_register_solvers(self, register: SolverRegistry) -> None:
        register.extend(self.solvers)


def build(*plugins: object) -> Registry:
    return Registry.build(plugins, load_entry_points=False)


def ids(solvers: Sequence[Solver]) -> list[str]:
    return [item.solver_id for item in solvers]


# -- solvers ------------------------------------------------------------------------------------


def test_families_keep_their_order_and_last_resorts_come_last() -> None:
    first = Solvers("one", solver("b-best"), solver("a-naive", is_last_resort=True), solver("a-2"))
    registry = build(first, Solvers("two", solver("c-1")))
    assert ids(registry.solvers) == ["b-best", "a-2", "c-1", "a-naive"]
    assert not registry.failures


def test_a_solver_is_found_by_id_and_a_misspelt_one_is_guessed() -> None:
    registry = build(Solvers("one", solver("winograd-f4x3-fwd"), solver("fft-2d")))
    assert registry.solver("fft-2d") is registry.solvers[1]
    assert registry.find_solver("winograd-f4x3") is None
    with pytest.raises(SolutionError, match="'winograd-f4x3'; did you mean winograd-f4x3-fwd"):
        registry.solver("winograd-f4x3")
    with pytest.raises(SolutionError, match="see `convfind solvers`"):
        registry.solver("qqqq")


def test_the_package_of_a_solver_is_distribution_and_version(
    install: Callable[..., str],
) -> None:
    name = install(
        "some-solvers",
        """
        from convfind.plugins import hookimpl
        from convfind.testing.solvers import MockDynamic

        @hookimpl
        def convfind_register_solvers(register):
            register.add(MockDynamic())
        """,
        version="2.5",
    )
    registry = Registry.build(selection=PluginSelection(allow=frozenset({name})))
    assert registry.package_of("mock-dynamic") == "some-solvers 2.5"
    with pytest.raises(SolutionError):
        registry.package_of("nothing")


def test_of_two_solvers_with_one_id_the_first_stays_and_both_packages_are_named() -> None:
    first = solver("igemm-fwd")
    second = Solvers("second", solver("igemm-fwd"), solver("igemm-bwd"))
    registry = build(Solvers("first", first), second)
    assert registry.solver("igemm-fwd") is first
    assert registry.solver("igemm-bwd")
    (failure,) = registry.failures
    assert failure.name == "second"
    assert failure.error == (
        "solver 'igemm-fwd' is registered by both first and second; uninstall one"
    )


@pytest.mark.parametrize(
    ("nonsense", "complaint"),
    [
        (42, "42 is not an instance of"),
        (None, "None is not an instance of"),
        (AnySolver, "AnySolver is a class; register an instance"),
        (solver("NotKebab"), "'NotKebab'"),
        (solver("under_score"), "'under_score'"),
        (solver("double--dash"), "'double--dash'"),
        (solver(7), "id 7"),
        (AnySolver(), "id None"),
        (solver("a", version=0), "version 0"),
        (solver("a", version="1"), "version '1'"),
        (solver("a", version=True), "version True"),
        (solver("a", algorithm="direct"), "algorithm 'direct'"),
        (solver("a", backends="opencl"), "backends 'opencl'"),
        (solver("a", domain="all"), "domain 'all' of solver 'a' is no Domain"),
        (solver("a", is_last_resort=None), "is_last_resort of solver 'a'"),
    ],
)
def test_a_nonsensical_solver_is_refused_and_its_siblings_stay(
    nonsense: object, complaint: str
) -> None:
    registry = build(Solvers("one", solver("good-1"), nonsense, solver("good-2")))
    assert ids(registry.solvers) == ["good-1", "good-2"]
    (failure,) = registry.failures
    assert complaint in failure.error
    assert failure.stage == "convfind_register_solvers"


def test_every_fault_of_a_list_is_reported() -> None:
    (failure,) = build(Solvers("one", 1, solver("good"), 2)).failures
    assert "1 is not" in failure.error
    assert "2 is not" in failure.error


def test_solvers_returned_instead_of_registered_are_reported() -> None:
    class Returns:
        @hookimpl
        def convfind_register_solvers(self, register: SolverRegistry) -> object:
            return [solver("lost")]

    (failure,) = build(Returns()).failures
    assert "call register.add or register.extend" in failure.error


def test_solvers_of_other_backends_are_refused_with_the_reason() -> None:
    plugin = Solvers(
        "one",
        solver("both"),
        solver("hip-only", backends=("hip",)),
        solver("m", backends=("mock",)),
    )
    registry = build(plugin)
    candidates, rejected = registry.solvers_for(MOCK_TARGET)
    assert ids(candidates) == ["both", "m"]
    assert list(rejected) == ["hip-only"]
    assert rejected["hip-only"].reason is Reason.BACKEND
    assert rejected["hip-only"].detail == "hip; this is mock"
    assert registry.solvers_for(MOCK_TARGET) is registry.solvers_for(MOCK_TARGET)
    # So is a solver that somebody asks by itself.
    assert solver("hip-only", backends=("hip",)).takes(PROBLEM, MOCK_TARGET) == rejected["hip-only"]
    assert solver("m", backends=("mock",)).takes(PROBLEM, MOCK_TARGET)


# -- backends and heuristics ----------------------------------------------------------------------


class Backends:
    """A plugin with backends."""

    def __init__(self, *backends: Any) -> None:
        self.backends = backends

    @hookimpl
    def convfind_register_backends(self, register: BackendRegistry) -> None:
        register.extend(self.backends)


class CountedBackend(MockBackend):
    name = "counted"
    constructed = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).constructed += 1


def test_a_backend_is_constructed_once_and_only_when_asked_for() -> None:
    registry = build(Backends(CountedBackend))
    assert list(registry.backends) == ["counted"]
    assert "counted" in registry.backends
    before = CountedBackend.constructed
    assert registry.backends["counted"] is registry.backends["counted"]
    assert CountedBackend.constructed == before + 1
    with pytest.raises(KeyError):
        registry.backends["other"]


def test_an_instance_of_a_backend_is_taken_as_it_is() -> None:
    backend = MockBackend()
    assert build(Backends(backend)).backends["mock"] is backend


def test_a_backend_that_does_not_start_is_unavailable() -> None:
    class Broken(MockBackend):
        name = "broken"

        def __init__(self) -> None:
            raise RuntimeError("no runtime")

    registry = build(Backends(Broken))
    with pytest.raises(BackendUnavailableError, match=r"'broken' of Backends .*: no runtime"):
        registry.backends["broken"]


def test_nonsensical_backends_are_refused() -> None:
    class Partial(MockBackend):
        name = "Partial"

    registry = build(Backends(int, "opencl", Partial, MockBackend))
    assert list(registry.backends) == ["mock"]
    (failure,) = registry.failures
    for complaint in ("<class 'int'> is not", "'opencl' is not", "'Partial'"):
        assert complaint in failure.error


class Heuristics:
    """A plugin with heuristics."""

    def __init__(self, *heuristics: Any) -> None:
        self.heuristics = heuristics

    @hookimpl
    def convfind_register_heuristics(self, register: HeuristicRegistry) -> None:
        register.extend(self.heuristics)


def test_heuristics_are_kept_in_order_and_checked() -> None:
    def predict(*_: object) -> None:
        return None

    good = SimpleNamespace(name="nearest", predict=predict)
    registry = build(
        Heuristics(good, SimpleNamespace(name="deaf"), SimpleNamespace(predict=predict))
    )
    assert registry.heuristics == (good,)
    (failure,) = registry.failures
    assert "no" in failure.error
    assert "id None" in failure.error


# -- databases and commands -----------------------------------------------------------------------


class Databases:
    """A plugin with databases."""

    def __init__(self, returned: object) -> None:
        self.returned = returned

    @hookimpl
    def convfind_system_databases(self) -> Any:
        return self.returned


def test_system_databases_are_collected_and_nonsense_is_not(tmp_path: Path) -> None:
    registry = build(
        Databases([tmp_path, "text", tmp_path / "missing"]), Databases("text"), Databases(7)
    )
    assert registry.system_databases() == (tmp_path,)
    assert len(registry.failures) == 4


class Commands:
    """A plugin with commands."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @hookimpl
    def convfind_register_commands(self, cli: click.Group) -> None:
        for name in self.names:
            cli.add_command(click.Command(name))


def test_plugins_add_commands_and_cannot_replace_any() -> None:
    registry = build(Commands("mine", "find"), Commands("mine", "more"))
    cli = click.Group("convfind")
    find = click.Command("find")
    cli.add_command(find)
    registry.add_commands(cli)
    assert sorted(cli.commands) == ["find", "mine", "more"]
    assert cli.commands["find"] is find
    assert [failure.error.split(" ")[1] for failure in registry.failures] == ["'find'", "'mine'"]


# -- events -------------------------------------------------------------------------------------


class Listener:
    """A plugin that hears of finds."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    @hookimpl
    def convfind_find_started(self, problem: ConvProblem, candidates: int) -> None:
        self.heard.append((problem, candidates))

    @hookimpl
    def convfind_candidate_measured(self, solution: Solution) -> None:
        self.heard.append(solution)

    @hookimpl
    def convfind_find_finished(self, result: FindResult) -> None:
        self.heard.append(result)


class Raises:
    """A plugin that fails in an event."""

    @hookimpl
    def convfind_find_started(self) -> None:
        raise RuntimeError("tired")


def test_listeners_hear_of_finds_and_a_raising_one_is_ignored() -> None:
    listener = Listener()
    registry = build(Raises(), listener)
    solution = Solution("a", Algorithm.DIRECT, "p", "mock", 1.0, TimeOrigin.MEASURED, 0)
    result = FindResult("p", "mock", "NORMAL", FindOrigin.MEASURED, (solution,))
    for _ in range(2):
        registry.find_started(PROBLEM, MOCK_TARGET, 3)
    registry.candidate_measured(PROBLEM, MOCK_TARGET, solution)
    registry.find_finished(PROBLEM, MOCK_TARGET, result)
    assert listener.heard == [(PROBLEM, 3), (PROBLEM, 3), solution, result]
    (failure,) = registry.failures
    assert failure.error == "RuntimeError: tired"


# -- the process --------------------------------------------------------------------------------


def test_the_default_registry_is_built_once() -> None:
    assert default_registry() is default_registry()


def test_registering_everything_installed_imports_no_runtime() -> None:
    code = (
        "import sys; from convfind.plugins.registry import default_registry; default_registry();"
        "print([name for name in ('pyopencl', 'hip', 'rich', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
