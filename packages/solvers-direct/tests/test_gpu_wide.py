"""The solvers that take four columns an item keep the contract and are right on edges."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from convfind.applicability import Rejected
from convfind.backend import Device
from convfind.config import Config
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.target import DeviceKind, Target
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu_wide import WideConv

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [WideConv(direction) for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)]
GPU = replace(
    MOCK_TARGET,
    identity="",
    backend="opencl",
    kind=DeviceKind.GPU,
    compute_units=132,
    local_memory=48 * 1024,
    max_work_group=1024,
)
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def problem_of(
    solver: WideConv, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    options = {"groups": x[1], **options}
    return ConvProblem.create(solver.direction, x, w, **options)  # type: ignore[arg-type]


class Single(WideConv):
    """One result an item, and few rows."""

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        return super().default_config(problem, target).replace(rows=2, results=1, items=96)


@pytest.mark.parametrize("kind", [WideConv, Single])
@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_edges_of_tiles(
    kind: type[WideConv], direction: Direction, convfind_device: Device
) -> None:
    if convfind_device.target.platform.startswith("Portable"):
        pytest.skip("compiles for minutes; CPUs never get these kernels")
    solver, device = kind(direction), copy.copy(convfind_device)
    if device.target.kind is not DeviceKind.GPU:
        device.target = replace(
            device.target, identity="", kind=DeviceKind.GPU, local_memory=48 * 1024
        )
    shapes = [
        problem_of(solver, (3, 13, 9, 8), (13, 1, 3, 5), padding=(2, 4), alpha=0.5, beta=2.0),
        problem_of(solver, (2, 3, 57, 56), (3, 1, 7, 7), padding=((0, 3), (3, 3))),
        problem_of(solver, (1, 2, 24, 1000), (2, 1, 2, 3), padding=(1, 1)),
        problem_of(solver, (3, 15, 17, 20), (20, 3, 2, 5), groups=5),
        problem_of(solver, (2, 7, 24), (7, 1, 5), padding=2),
    ]
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@each_solver
@pytest.mark.parametrize(("size", "taps"), [(112, 3), (28, 5), (56, 7), (56, 9), (512, 3)])
def test_usual_tiles_are_legal(solver: WideConv, size: int, taps: int) -> None:
    problem = problem_of(solver, (8, 96, size, size), (96, 1, taps, taps), padding=taps // 2)
    assert solver.applicability(problem, GPU)
    assert solver.default_config(problem, GPU) in solver.search_space(problem, GPU)


@each_solver
def test_other_problems_are_refused(solver: WideConv) -> None:
    small = problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    assert solver.applicability(small, GPU)
    last = {f"{name}_layout": Layout.NHWC for name in "xwy"}
    for problem, reason in (
        (replace(small, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16), Reason.DTYPE),
        (replace(small, **last), Reason.LAYOUT),  # type: ignore[arg-type]
        (small.with_direction(Direction.BACKWARD_WEIGHTS), Reason.DIRECTION),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), stride=2), Reason.STRIDE),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 12, 1), padding=(6, 0)), Reason.FILTER_SIZE),
        (problem_of(solver, (1, 4, 8, 7), (4, 1, 3, 3), padding=1), Reason.SIZE_LIMIT),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3)), Reason.SIZE_LIMIT),
        (problem_of(solver, (1, 4, 8, 8192), (4, 1, 3, 3), padding=1), Reason.SIZE_LIMIT),
    ):
        answer = solver.applicability(problem, GPU)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_the_kernel_compiles_alone(convfind_device: Device) -> None:
    problem = problem_of(SOLVERS[0], (1, 4, 8, 8), (4, 1, 3, 3), padding=1)
    for program in SOLVERS[0].solution(problem, GPU).programs:
        assert convfind_device.compile(replace(program, defines=()))
