"""The solvers that take four columns an item keep the contract and are right on edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import PLAIN_GPU, as_small_gpu

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.testing import assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.wide import WideConv
from convfind_solvers_direct.gpu.wide_weights import WideWeights

pytest_plugins = ["convfind.testing.fixtures"]

Wide = WideConv | WideWeights
DIRECTIONS = (Direction.FORWARD, Direction.BACKWARD_DATA)
SOLVERS: list[Wide] = [*(WideConv(direction) for direction in DIRECTIONS), WideWeights()]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def problem_of(
    solver: Wide, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    options = {"groups": x[1], **options}
    return ConvProblem.create(solver.direction, x, w, **options)  # type: ignore[arg-type]


class Chained(WideConv):
    """One result an item, few rows, and images one after the other."""

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        return super().default_config(problem, target).replace(rows=2, results=1, chain=2)


def shapes_of(solver: Wide) -> list[ConvProblem]:
    """Edges of rows, strips, bands and runs; row lengths that are multiples of 4."""
    return [
        problem_of(solver, (3, 13, 9, 8), (13, 1, 3, 5), padding=(2, 2), alpha=0.5, beta=2.0),
        problem_of(solver, (2, 3, 57, 56), (3, 1, 7, 7), padding=((0, 3), (3, 3))),
        problem_of(solver, (1, 2, 24, 1000), (2, 1, 2, 5), padding=(1, 2)),
        problem_of(solver, (3, 15, 17, 20), (20, 3, 2, 5), groups=5, padding=(1, 2)),
        problem_of(solver, (2, 7, 24), (7, 1, 5), padding=2, layout=Layout.NCW),
    ]


@pytest.mark.parametrize("solver", [WideConv(DIRECTIONS[0]), Chained(DIRECTIONS[1]), WideWeights()])
def test_edges_of_tiles(solver: Wide, convfind_device: Device) -> None:
    shapes = shapes_of(solver)
    report = assert_solver(
        solver, as_small_gpu(convfind_device), shapes=shapes, every_variant=False
    )
    assert len(report.problems) == len(shapes)


def test_weights_make_do_with_less_workspace() -> None:
    solver, target = WideWeights(), replace(PLAIN_GPU, identity="", compute_units=16)
    problem = problem_of(solver, (16, 16, 20, 20), (16, 1, 3, 3), padding=1)
    most = solver.workspace_size(problem, target)
    assert most >= 2 * problem.nbytes("w")
    assert solver.workspace_size(problem, target, most // 2) <= most // 2
    assert solver.workspace_size(problem, target, 0) == 0


@each_solver
@pytest.mark.parametrize(("size", "taps"), [(112, 3), (28, 5), (56, 7), (56, 9), (512, 3)])
def test_usual_tiles_are_legal(solver: Wide, size: int, taps: int) -> None:
    problem = problem_of(solver, (8, 96, size, size), (96, 1, taps, taps), padding=taps // 2)
    assert solver.takes(problem, PLAIN_GPU)
    assert solver.default_config(problem, PLAIN_GPU) in solver.search_space(problem, PLAIN_GPU)


@each_solver
def test_other_problems_are_refused(solver: Wide) -> None:
    other = Direction.FORWARD if isinstance(solver, WideWeights) else Direction.BACKWARD_WEIGHTS
    small = problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    assert solver.takes(small, PLAIN_GPU)
    last = {f"{name}_layout": Layout.NHWC for name in "xwy"}
    for problem, reason in (
        (replace(small, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16), Reason.DTYPE),
        (replace(small, **last), Reason.LAYOUT),  # type: ignore[arg-type]
        (small.with_direction(other), Reason.DIRECTION),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), stride=2), Reason.STRIDE),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 12, 1), padding=(6, 0)), Reason.FILTER_SIZE),
        (problem_of(solver, (1, 4, 8, 7), (4, 1, 3, 3), padding=1), Reason.SIZE_LIMIT),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3)), Reason.SIZE_LIMIT),
    ):
        answer = solver.takes(problem, PLAIN_GPU)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_rows_that_do_not_fit_are_refused() -> None:
    wide = problem_of(SOLVERS[0], (1, 4, 8, 8192), (4, 1, 3, 3), padding=1)
    answer = SOLVERS[0].takes(wide, PLAIN_GPU)
    assert isinstance(answer, Rejected)
    assert answer.reason == Reason.SIZE_LIMIT


@pytest.mark.parametrize("solver", SOLVERS[1:], ids=lambda s: s.solver_id)
def test_kernels_compile_alone(solver: Wide, convfind_device: Device) -> None:
    problem = problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    for program in solver.solution(problem, PLAIN_GPU).programs:
        assert convfind_device.compile(replace(program, defines=()))
