"""Any solver, direction, layout, type, epilogue and odd size: the result is PyTorch's in float64.

``python -m pytest tests/integration/test_random_draws.py --draws 2000`` takes hours on a CPU, and
``--draws-on cuda:0`` runs them on another device.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch

import numpy as np
import pytest
from devices_for_tests import as_small_gpu, mostly_as_written
from drawn_problems import drawn_problem
from pytorch_for_tests import right_by_pytorch

from convfind.checking.accuracy import bound_of, check_error, measure_error, spread_magnitude
from convfind.device.target import DeviceKind
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver
from convfind.testing import edge_cases, fused
from convfind.testing.guarded_run import GuardedRunner
from convfind.testing.numbers import Numbers

#: Kernels with the instructions of one vendor.
_ELSEWHERE = ("*nvidia*", "*mma*", "*pipelined*")
_MOST_TRIES = 400


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each draw a test of its own, which its number repeats."""
    if "draw" in metafunc.fixturenames:
        metafunc.parametrize("draw", range(metafunc.config.getoption("draws")))


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    backend, _, selector = str(request.config.getoption("draws_on")).partition(":")
    opened = default_registry().backends[backend].open(selector)
    yield opened
    opened.close()


def solvers_of(device: Device) -> list[Solver]:
    """The solvers that may run here, and those that core completes."""
    runs_all = device.target.kind is not DeviceKind.CPU
    return [
        solver
        for solver in default_registry().offered(fused(edge_cases()[0]))
        if (not solver.backends or device.target.backend in solver.backends)
        and (runs_all or not any(fnmatch(solver.solver_id, name) for name in _ELSEWHERE))
    ]


def draw_of(number: int, device: Device) -> tuple[Solver, Device, ConvProblem] | None:
    """Draw a solver, kernels for CPUs or GPUs, and a problem that the solver takes there."""
    rng = np.random.default_rng(number)
    solvers = solvers_of(device)
    solver = solvers[rng.integers(len(solvers))]
    places = [mostly_as_written(device), as_small_gpu(device)]
    places = [place for place in places if place.target.kind in solver.domain.kinds]
    if not places:
        return None
    place = places[rng.integers(len(places))]
    for _ in range(_MOST_TRIES):
        problem = drawn_problem(solver, rng)
        if problem is not None and solver.takes(problem, place.target):
            return solver, place, problem
    return None


@pytest.mark.slow
def test_a_drawn_problem_is_computed_right(device: Device, draw: int) -> None:
    drawn = draw_of(draw, device)
    if drawn is None:
        pytest.skip("no problem that the solver takes")
    solver, place, problem = drawn
    assert_right(solver, place, problem, draw)


def assert_right(solver: Solver, place: Device, problem: ConvProblem, seed: int) -> None:
    """Run a problem between guards, and compare with PyTorch within the solver's bound."""
    numbers = Numbers.random(problem, seed)
    recipe = solver.solution(problem, place.target)
    outcome = GuardedRunner(place).run(problem, recipe, numbers.memory)
    what = f"{solver.solver_id}, {place.target.kind}: {problem.text}"
    assert not outcome.complaints, what
    writes = problem.direction.writes
    result = tensor_view(problem, writes, outcome.result)
    right = right_by_pytorch(problem, numbers.values)
    last = problem.tensor_layout(writes).channels_last
    reach = solver.error_reach(problem)
    magnitude = spread_magnitude(numbers.magnitude, reach, channels_last=last)
    error = measure_error(result, right, magnitude, numbers.right.size)
    bound = bound_of(solver, problem)
    assert check_error(error, bound), f"{what}: {error} exceeds {bound}"
