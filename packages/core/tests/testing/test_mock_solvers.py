"""The mock solvers are sound, but for the one property that each is there for."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.solver import Solver
from convfind.testing import MockDevice, MockSolver, assert_solver, check_solver, mock_solvers
from convfind.testing.mock_functions import mock_convolution, problem_arguments
from convfind.testing.solvers import MockBroken, MockWrong
from convfind.testing.tensors import filled_memory

SHAPES = (
    ConvProblem.forward((2, 4, 5, 6), (6, 2, 3, 3), groups=2, padding=1),
    ConvProblem.forward((1, 3, 9), (4, 3, 2), stride=2, alpha=2.0, beta=1.0),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [s for s in mock_solvers() if not isinstance(s, (MockWrong, MockBroken))],
    ids=lambda solver: solver.solver_id,
)
def test_sound_solvers_pass_the_conformance_kit(solver: Solver) -> None:
    report = assert_solver(solver, MockDevice(), shapes=SHAPES)
    assert len(report.problems) >= 20


def test_the_wrong_solver_is_found_out() -> None:
    report = check_solver(MockWrong(), MockDevice(), shapes=SHAPES, every_variant=False)
    assert {failure.check for failure in report.failures} == {"random data"}
    assert not report.ok


def test_the_broken_solver_is_found_out() -> None:
    report = check_solver(MockBroken(), MockDevice(), shapes=SHAPES, every_variant=False)
    assert {failure.check for failure in report.failures} == {"build"}


def test_the_list_is_ordered_by_time_apart_from_tuning() -> None:
    solvers = [s for s in mock_solvers() if isinstance(s, MockSolver)]
    times = [s.microseconds for s in solvers if s.solver_id != "mock-tunable"]
    assert len(times) == 7
    assert times == sorted(times)
    assert len({solver.solver_id for solver in solvers}) == len(solvers) == 8


def test_a_problem_travels_in_kernel_arguments() -> None:
    problem = ConvProblem.forward((1, 1, 2, 2), (1, 1, 1, 1), layout="NHWC", x_strides=(8, 8, 4, 2))
    x = filled_memory(problem, "x", np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1), 0)
    w = filled_memory(problem, "w", np.array([[[[3.0]]]], np.float32), 0)
    y = filled_memory(problem, "y", None, 0xFF)
    words = [np.int64(argument.value) for argument in problem_arguments(problem)]
    mock_convolution(x, w, y, *words)
    assert tensor_view(problem, "y", y).ravel().tolist() == [0, 3, 6, 9]
