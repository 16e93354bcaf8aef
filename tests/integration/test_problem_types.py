"""A problem type of somebody else is found, measured, recorded, recalled and run as any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sums_for_tests import (
    QuickSumProblem,
    SumPlugin,
    SumProblem,
    WrongSumSolver,
    mock_add,
)

from convfind.errors import NoSolverError, ProblemError
from convfind.find.result import FindOrigin
from convfind.find.solution import Solution, TimeOrigin
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins.registry import Registry, default_registry
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.settings import Settings
from convfind.solver import Solver
from convfind.testing import MockBackend, mock_solvers
from convfind.testing.mock_functions import MOCK_FUNCTIONS

PROBLEM = SumProblem((3, 5, 8))
SCALED = SumProblem((7, 3), -2.5)
LAYER = ConvProblem.forward(x=(2, 4, 6, 6), w=(8, 4, 3, 3), padding=1)


class Everyone(SumPlugin):
    """Solvers of sums and of convolutions."""

    def __init__(self, *more: Solver) -> None:
        super().__init__(*mock_solvers(), *more)


class Bench:
    """Opens handles on one device that share one folder, as processes of one user do."""

    def __init__(self, folder: Path, stack: ExitStack, device: str) -> None:
        self._folder, self._stack, self._device = folder, stack, device

    def open(self, *more: Solver) -> Handle:
        registry = Registry.build([Everyone(*more)], load_entry_points=False)
        settings = Settings(user_db_path=self._folder)
        return self._stack.enter_context(handle_for(self._opened(), registry, settings))

    def _opened(self) -> Device:
        if self._device == "mock":
            return MockBackend(functions={**MOCK_FUNCTIONS, "add": mock_add}).open()
        return default_registry().backends["opencl"].open("cpu")


@pytest.fixture(params=["mock", "opencl"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path, stack, request.param)


@pytest.fixture
def handle(bench: Bench) -> Handle:
    return bench.open()


def summands(problem: SumProblem) -> dict[str, np.ndarray[Any, Any]]:
    return problem.draw(np.random.default_rng(0))


def right(problem: SumProblem) -> np.ndarray[Any, Any]:
    return problem.reference(summands(problem))["y"].astype(np.float32)


def test_it_is_measured_recorded_and_recalled(bench: Bench) -> None:
    first = bench.open().find(PROBLEM)
    assert first.origin is FindOrigin.MEASURED
    assert {solution.solver for solution in first.solutions} == {"sum-by-four", "sum-by-one"}
    assert all(solution.error is not None for solution in first.solutions)
    assert first.best.problem == first.problem == PROBLEM.key
    assert "sum-by-four" in first._repr_html_()
    second = bench.open().find(PROBLEM)
    assert second.origin is FindOrigin.USER_DB
    assert (second.measured, second.compiled) == (0, 0)
    assert [s.time_ms for s in second.solutions] == [s.time_ms for s in first.solutions]
    assert second.best.time_origin is TimeOrigin.USER_DB


@pytest.mark.parametrize("problem", [PROBLEM, SCALED], ids=str)
def test_it_runs_under_the_names_of_its_operands(handle: Handle, problem: SumProblem) -> None:
    best = handle.find(problem).best
    given = summands(problem)
    result = handle.run(best, **given)
    np.testing.assert_allclose(result, right(problem), rtol=1e-6, atol=1e-6)
    out = np.empty(problem.shape, np.float32)
    assert handle.run(best, **given, out=out) is out
    np.testing.assert_array_equal(out, result)
    on_device = {name: handle.tensor(array) for name, array in given.items()}
    np.testing.assert_array_equal(handle.to_numpy(handle.run(best, **on_device)), result)


def test_a_solution_runs_in_another_process(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "solution.json"
    bench.open().find(PROBLEM).best.save(file)
    result = bench.open().run(Solution.load(file), **summands(PROBLEM))
    np.testing.assert_allclose(result, right(PROBLEM), rtol=1e-6, atol=1e-6)


def test_wrong_operands_are_refused(handle: Handle) -> None:
    best, given = handle.find(PROBLEM).best, summands(PROBLEM)
    with pytest.raises(ProblemError, match="sum reads b"):
        handle.run(best, a=given["a"])
    with pytest.raises(ProblemError, match="the problem reads a, b"):
        handle.run(best, **given, x=given["a"])
    with pytest.raises(ProblemError, match="use out="):
        handle.run(best, **given, y=given["a"])
    with pytest.raises(ProblemError, match=r"shape \(3, 5, 8\)"):
        handle.run(best, a=given["a"], b=given["b"][:2])
    with pytest.raises(ProblemError, match="does not read w"):
        handle.bind(best, w=given["a"])


def test_traits_and_sizes_decide_who_takes_it(handle: Handle) -> None:
    found = handle.find(SCALED)
    assert [solution.solver for solution in found.solutions] == ["sum-by-one"]
    assert found.rejected["sum-by-four"].reason is Reason.TRAIT
    odd = handle.find(SumProblem((3, 5)))
    assert odd.rejected["sum-by-four"].reason is Reason.SIZE_LIMIT


def test_a_wrong_solver_is_found_out_and_quarantined(bench: Bench) -> None:
    wrong = WrongSumSolver("sum", 1, "sum-wrong", frozenset())
    for _ in range(2):
        found = bench.open(wrong).find(PROBLEM, mode="NORMAL", use_db=False)
        assert found.rejected["sum-wrong"].reason in (Reason.WRONG_RESULT, Reason.QUARANTINED)
        assert found.best.solver != "sum-wrong"
    assert found.rejected["sum-wrong"].reason is Reason.QUARANTINED


def test_no_kind_sees_the_solvers_of_another(handle: Handle) -> None:
    sums, layer = handle.find(PROBLEM), handle.find(LAYER, mode="FAST")
    everyone = {*layer.rejected, *(solution.solver for solution in layer.solutions)}
    assert everyone
    assert not any("sum" in solver for solver in everyone)
    assert all("sum" in s for s in (*sums.rejected, *(one.solver for one in sums.solutions)))
    assert all("sum" in row.solver for row in handle.explain(PROBLEM).rows)
    solver = handle.registry.solver("sum-by-one")
    refused = solver.takes(LAYER, handle.target)
    assert "is for sum, not conv" in str(refused)
    assert not handle.registry.solver("mock-dynamic").takes(PROBLEM, handle.target)


def test_what_is_never_measured_goes_to_the_first_that_takes_it(handle: Handle) -> None:
    problem = QuickSumProblem((4, 3))
    for mode in ("NORMAL", "FAST"):
        found = handle.find(problem, mode=mode)
        assert found.origin is FindOrigin.FALLBACK
        assert (found.measured, found.compiled) == (0, 0)
        assert [s.solver for s in found.solutions] == ["quick-sum-by-four", "quick-sum-by-one"]
        assert found.best.time_origin is TimeOrigin.NONE
    assert "first solver" in handle.explain(problem).decision.reason
    result = handle.run(found.best, **summands(problem))
    np.testing.assert_allclose(result, right(problem), rtol=1e-6, atol=1e-6)
    odd = handle.find(QuickSumProblem((3,)))
    assert [s.solver for s in odd.solutions] == ["quick-sum-by-one"]


def test_packages_find_each_others_problem_types_by_their_word(handle: Handle) -> None:
    registry = handle.registry
    assert registry.problem_type("sum")(shape=(2,), scale=3.0) == SumProblem((2,), 3.0)
    assert registry.problem_type("conv") is ConvProblem
    assert registry.problem_from_key(SCALED.key) == SCALED
    assert registry.problem_from_key(LAYER.key) == LAYER
    with pytest.raises(ProblemError, match="conv, quick-sum, sum"):
        registry.problem_type("pooling")


def test_a_find_without_solvers_says_so(bench: Bench) -> None:
    handle = bench.open()
    found = handle.find(PROBLEM, solvers=["mock-dynamic"])
    with pytest.raises(NoSolverError):
        _ = found.best
