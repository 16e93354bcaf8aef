"""The weight gradient of first layers on GPUs keeps the contract, also on drawn shapes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import H200, PLAIN_GPU, as_small_gpu
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.first_weights import GpuFirstWeights
from convfind_solvers_direct.window import window

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [GpuFirstWeights(channels_last=channels_last) for channels_last in (False, True)]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def problem_of(
    solver: GpuFirstWeights, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=solver.channels_last)
    return ConvProblem.create(Direction.BACKWARD_WEIGHTS, x, w, layout=layout, **options)  # type: ignore[arg-type]


@each_solver
def test_edges_of_tiles(solver: GpuFirstWeights, convfind_device: Device) -> None:
    half = {"dtype": DataType.FLOAT16, "padding": ((0, 1), (2, 1)), "stride": (1, 2)}
    shapes = [
        problem_of(solver, (2, 3, 29, 31), (20, 3, 7, 7), padding=3, stride=2),
        problem_of(solver, (2, 4, 33, 70), (96, 4, 5, 4), stride=4, alpha=0.5, beta=2.0),
        problem_of(solver, (2, 3, 40, 35), (33, 3, 3, 3), **half),
        problem_of(solver, (2, 1, 100), (5, 1, 5), padding=2),
        problem_of(solver, (1, 1, 24, 28), (64, 1, 9, 9), padding=4),
    ]
    report = assert_solver(
        solver, as_small_gpu(convfind_device), shapes=shapes, every_variant=False
    )
    assert len(report.problems) == len(shapes)


@st.composite
def problems(draw: st.DrawFn, solver: GpuFirstWeights) -> list[ConvProblem]:
    """Draw a window, and problems with it."""
    window = tuple(draw(st.integers(2, 6)) for _ in range(2))
    stride = tuple(draw(st.integers(1, taps - 1)) for taps in window)
    channels, filters = draw(st.integers(1, 4)), draw(st.integers(1, 70))

    def one() -> ConvProblem:
        padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(2))
        return problem_of(
            solver,
            (draw(st.integers(1, 3)), channels, *(draw(st.integers(1, 60)) for _ in range(2))),
            (filters, channels, *window),
            stride=stride,
            padding=padding,
            beta=draw(st.sampled_from((0.0, 2.0))),
        )

    return legal(one, 2)


@each_solver
def test_drawn_shapes(solver: GpuFirstWeights, convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    assert_drawn(solver, device, problems(solver))


@each_solver
@pytest.mark.parametrize(
    ("x", "w", "stride", "padding"),
    [
        ((64, 3, 224, 224), (64, 3, 7, 7), 2, 3),
        ((64, 3, 224, 224), (64, 3, 3, 3), 1, 1),
        ((64, 3, 299, 299), (32, 3, 3, 3), 2, 0),
        ((64, 1, 224, 224), (64, 1, 9, 9), 1, 4),
        ((64, 1, 7, 7), (3, 1, 3, 3), 1, 1),
    ],
)
@pytest.mark.parametrize("target", [PLAIN_GPU, H200], ids=["plain", "h200"])
def test_usual_tiles_are_legal(
    solver: GpuFirstWeights,
    target: Target,
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: int,
    padding: int,
) -> None:
    problem = problem_of(solver, x, w, stride=stride, padding=padding)
    assert solver.takes(problem, target)
    config = solver.default_config(problem, target)
    assert config in solver.search_space(problem, target)
    index = solver.wti(problem, target)
    assert index is not None
    assert 0.01 < index < 1


@pytest.mark.parametrize(
    ("x", "w", "stride", "padding", "columns"),
    [
        ((64, 1, 224, 224), (64, 1, 9, 9), 1, 4, 56),
        ((64, 1, 28, 28), (32, 1, 5, 5), 1, 2, 28),
        ((64, 3, 299, 299), (32, 3, 3, 3), 2, 0, 52),
        ((64, 3, 224, 224), (32, 3, 3, 3), 2, 1, 56),
        ((64, 3, 224, 224), (64, 3, 3, 3), 1, 1, 56),
    ],
)
def test_usual_tiles_are_those_that_were_fast(
    x: tuple[int, ...], w: tuple[int, ...], stride: int, padding: int, columns: int
) -> None:
    """Channels last, on an H200, where igemm-nvidia takes what it is faster at."""
    last = SOLVERS[1]
    problem = problem_of(last, x, w, stride=stride, padding=padding)
    assert last.default_config(problem, H200).integer("columns") == columns


@each_solver
def test_no_config_has_more_items_than_a_kernel_may(solver: GpuFirstWeights) -> None:
    """NVIDIA's OpenCL refused groups of 288."""
    problem = problem_of(solver, (64, 1, 224, 224), (64, 1, 9, 9), padding=4)
    shape, space = window(problem), solver.search_space(problem, H200)
    config = solver.default_config(problem, H200)
    items = {
        count: solver.blocking(shape, config.replace(sharers=count)).items for count in (2, 3, 4)
    }
    assert items == {2: 144, 3: 216, 4: 288}
    small = config.replace(rows=1)
    assert [small.replace(sharers=count) in space for count in items] == [True, True, False]


@each_solver
def test_copies_run_on_where_the_device_has_them(solver: GpuFirstWeights) -> None:
    problem = problem_of(solver, (4, 3, 64, 64), (32, 3, 3, 3), padding=1)
    halves = replace(problem, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16)
    for given_problem, target, expected in (
        (problem, H200, 1),
        (problem, PLAIN_GPU, 0),
        (problem, replace(H200, identity="", arch="sm_75"), 0),
        (halves, H200, 0),
    ):
        program = solver.solution(given_problem, target).programs[0]
        assert f"-DASYNC={expected}" in program.all_options


@each_solver
def test_less_is_expected_of_plain_copies(solver: GpuFirstWeights) -> None:
    problem = problem_of(solver, (64, 3, 224, 224), (32, 3, 3, 3), stride=2, padding=1)
    fast, slow = (solver.wti(problem, target) for target in (H200, PLAIN_GPU))
    assert fast is not None
    assert slow is not None
    assert fast > 1.5 * slow > 0.05


@each_solver
def test_no_workspace_means_one_part(solver: GpuFirstWeights) -> None:
    problem = problem_of(solver, (4, 3, 64, 64), (32, 3, 3, 3), padding=1)
    assert solver.workspace_size(problem, PLAIN_GPU) > 0
    assert solver.workspace_size(problem, PLAIN_GPU, 0) == 0
    one_tile = problem_of(solver, (1, 1, 2, 2), (1, 1, 2, 2))
    assert solver.workspace_size(one_tile, PLAIN_GPU) == 0
    solution = solver.solution(problem, PLAIN_GPU, None, 0)
    assert (len(solution.steps), solution.workspace) == (1, 0)


@each_solver
def test_other_problems_and_devices_are_refused(solver: GpuFirstWeights) -> None:
    first = problem_of(solver, (4, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2)
    assert solver.takes(first, PLAIN_GPU)
    for problem, device, reason in (
        (first, replace(PLAIN_GPU, identity="", kind=DeviceKind.CPU), Reason.DEVICE_KIND),
        (first.with_direction(Direction.FORWARD), PLAIN_GPU, Reason.DIRECTION),
        (replace(first, dtype=DataType.FLOAT64, y_dtype=DataType.FLOAT64), PLAIN_GPU, Reason.DTYPE),
        (problem_of(solver, (1, 5, 8, 8), (4, 5, 3, 3)), PLAIN_GPU, Reason.CHANNELS),
        (problem_of(solver, (1, 1, 64, 99), (4, 1, 3, 60)), PLAIN_GPU, Reason.FILTER_SIZE),
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
