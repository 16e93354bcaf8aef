"""The solvers for first layers on GPUs keep the contract, also on drawn shapes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import PLAIN_GPU, as_small_gpu
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.first import GpuFirst

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [GpuFirst(channels_last=channels_last) for channels_last in (False, True)]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def problem_of(
    solver: GpuFirst, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=solver.channels_last)
    return ConvProblem.create(Direction.FORWARD, x, w, layout=layout, **options)  # type: ignore[arg-type]


@each_solver
def test_edges_of_tiles(solver: GpuFirst, convfind_device: Device) -> None:
    half = {"dtype": DataType.FLOAT16, "padding": ((0, 1), (2, 1)), "stride": (1, 2)}
    shapes = [
        problem_of(solver, (2, 3, 29, 31), (20, 3, 7, 7), padding=3, stride=2),
        problem_of(solver, (2, 4, 33, 134), (96, 4, 5, 4), stride=4, alpha=0.5, beta=2.0),
        problem_of(solver, (2, 3, 40, 35), (33, 3, 3, 3), **half),
        problem_of(solver, (2, 1, 100), (5, 1, 5), padding=2),
    ]
    report = assert_solver(
        solver, as_small_gpu(convfind_device), shapes=shapes, every_variant=False
    )
    assert len(report.problems) == len(shapes)


@st.composite
def problems(draw: st.DrawFn, solver: GpuFirst) -> list[ConvProblem]:
    """Draw a window, and problems with it."""
    window = tuple(draw(st.integers(2, 7)) for _ in range(2))
    stride = tuple(draw(st.integers(1, taps - 1)) for taps in window)
    channels, filters = draw(st.integers(1, 4)), draw(st.integers(1, 70))
    width = draw(st.integers(1, 80))

    def one() -> ConvProblem:
        padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(2))
        return problem_of(
            solver,
            (draw(st.integers(1, 3)), channels, draw(st.integers(1, 80)), width),
            (filters, channels, *window),
            stride=stride,
            padding=padding,
            beta=draw(st.sampled_from((0.0, 2.0))),
        )

    return legal(one, 6)


@each_solver
def test_drawn_shapes(solver: GpuFirst, convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    assert_drawn(solver, device, problems(solver))


@each_solver
@pytest.mark.parametrize(
    ("x", "w", "stride", "padding"),
    [
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, 3),
        ((64, 3, 224, 224), (64, 3, 11, 11), 4, 2),
        ((64, 3, 299, 299), (32, 3, 3, 3), 2, 0),
        ((64, 1, 224, 224), (64, 1, 9, 9), 1, 4),
        ((64, 1, 7, 7), (3, 1, 3, 3), 1, 1),
    ],
)
def test_usual_tiles_are_legal(
    solver: GpuFirst, x: tuple[int, ...], w: tuple[int, ...], stride: int, padding: int
) -> None:
    problem = problem_of(solver, x, w, stride=stride, padding=padding)
    assert solver.takes(problem, PLAIN_GPU)
    assert solver.default_config(problem, PLAIN_GPU) in solver.search_space(problem, PLAIN_GPU)
    index = solver.wti(problem, PLAIN_GPU)
    assert index is not None
    assert 0.01 < index < 1


@each_solver
def test_other_problems_and_devices_are_refused(solver: GpuFirst) -> None:
    first = problem_of(solver, (4, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2)
    assert solver.takes(first, PLAIN_GPU)
    for problem, device, reason in (
        (first, replace(PLAIN_GPU, identity="", kind=DeviceKind.CPU), Reason.DEVICE_KIND),
        (first.with_direction(Direction.BACKWARD_DATA), PLAIN_GPU, Reason.DIRECTION),
        (replace(first, dtype=DataType.FLOAT64, y_dtype=DataType.FLOAT64), PLAIN_GPU, Reason.DTYPE),
        (problem_of(solver, (1, 5, 8, 8), (4, 5, 3, 3)), PLAIN_GPU, Reason.CHANNELS),
        (problem_of(solver, (1, 3, 64, 64), (4, 3, 16, 16)), PLAIN_GPU, Reason.FILTER_SIZE),
        (first, replace(PLAIN_GPU, identity="", max_work_group=16), Reason.WORK_GROUP),
        (first, replace(PLAIN_GPU, identity="", local_memory=32768), Reason.LOCAL_MEMORY),
    ):
        answer = solver.takes(problem, device)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_the_kernel_compiles_alone(convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    problem = problem_of(SOLVERS[0], (1, 3, 8, 8), (4, 3, 3, 3))
    for program in SOLVERS[0].solution(problem, device.target).programs:
        assert device.compile(replace(program, defines=()))
