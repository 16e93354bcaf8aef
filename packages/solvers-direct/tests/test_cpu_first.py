"""The solvers for first layers keep the contract and are right on edges and drawn shapes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import mostly_as_written, of_instructions, on_cpu
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.cpu.first import CpuFirst, CpuFirstFromPlanes
from convfind_solvers_direct.cpu.first_weights import CpuFirstWeights
from convfind_solvers_direct.cpu.narrow import CpuNarrow

pytest_plugins = ["convfind.testing.fixtures"]

First = CpuFirst | CpuNarrow | CpuFirstWeights
SOLVERS: list[First] = [
    *(
        solver
        for channels_last in (False, True)
        for solver in (
            CpuFirst(channels_last=channels_last),
            CpuNarrow(Direction.BACKWARD_DATA, channels_last=channels_last),
            CpuFirstWeights(channels_last=channels_last),
        )
    ),
    CpuFirstFromPlanes(),
]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def problem_of(
    solver: First, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=solver.channels_last)
    problem = ConvProblem.create(solver.direction, x, w, layout=layout, **options)  # type: ignore[arg-type]
    if not isinstance(solver, CpuFirstFromPlanes):
        return problem
    planes = Layout.of(len(x) - 2, channels_last=False)
    return replace(problem, x_layout=planes, w_layout=planes)


@pytest.mark.parametrize("arch", ["x86-64-avx2", "x86-64-avx512"])
@each_solver
def test_edges_of_tiles(solver: First, arch: str, convfind_device: Device) -> None:
    device = mostly_as_written(of_instructions(on_cpu(convfind_device), arch))
    shapes = [
        problem_of(solver, (2, 3, 29, 31), (20, 3, 7, 7), padding=3, stride=2),
        problem_of(solver, (1, 3, 40, 139), (33, 3, 7, 5), padding=2, stride=4),
        problem_of(solver, (2, 1, 12, 9), (5, 1, 3, 3), padding=1, beta=2.0, alpha=0.5),
        problem_of(solver, (2, 1, 300), (40, 1, 5), padding=2),
    ]
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize("arch", ["x86-64-avx2", "x86-64-avx512"])
@pytest.mark.parametrize("solver", [CpuFirst(channels_last=True), CpuFirstFromPlanes()])
def test_large_results_past_the_caches(
    solver: CpuFirst, arch: str, convfind_device: Device
) -> None:
    """Of whole tiles, of a last one that is not, of lines that vectors are not, and added to y."""
    shapes = [
        problem_of(solver, (1, 3, 130, 127), (filters, 3, 3, 3), padding=1, beta=beta)
        for filters, beta in ((64, 0.0), (48, 0.0), (40, 0.0), (32, 2.0))
    ]
    device = of_instructions(on_cpu(convfind_device), arch)
    assert_solver(solver, device, shapes=shapes, every_variant=False)


@st.composite
def problems(draw: st.DrawFn, solver: First) -> list[ConvProblem]:
    """Draw a window, and problems with it: they share a program."""
    window = tuple(draw(st.integers(1, 7)) for _ in range(2))
    stride = tuple(draw(st.integers(1, 4)) for _ in range(2))
    channels, filters = draw(st.integers(1, 4)), draw(st.integers(1, 70))

    def one() -> ConvProblem:
        axes = tuple(draw(st.integers(1, 80)) for _ in range(2))
        padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(2))
        return problem_of(
            solver,
            (draw(st.integers(1, 3)), channels, *axes),
            (filters, channels, *window),
            stride=stride,
            padding=padding,
            beta=draw(st.sampled_from((0.0, 2.0))),
        )

    return legal(one, 8)


@each_solver
def test_drawn_shapes(solver: First, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    assert_drawn(solver, device, problems(solver))


@each_solver
def test_other_problems_and_devices_are_refused(solver: First) -> None:
    target = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)
    first = problem_of(solver, (4, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2)
    assert solver.takes(first, target)
    is_data = solver.direction is Direction.BACKWARD_DATA
    other = Direction.FORWARD if is_data else Direction.BACKWARD_DATA
    other_layout = Layout.of(2, channels_last=not solver.channels_last)
    for problem, device, reason in (
        (first, replace(target, identity="", kind=DeviceKind.GPU), Reason.DEVICE_KIND),
        (first.with_direction(other), target, Reason.DIRECTION),
        (replace(first, dtype=DataType.FLOAT64, y_dtype=DataType.FLOAT64), target, Reason.DTYPE),
        (replace(first, y_layout=other_layout), target, Reason.LAYOUT),
        (problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), groups=4), target, Reason.GROUPS),
        (problem_of(solver, (1, 5, 8, 8), (4, 5, 3, 3)), target, Reason.CHANNELS),
        (problem_of(solver, (1, 3, 64, 64), (4, 3, 19, 19)), target, Reason.FILTER_SIZE),
        (problem_of(solver, (1, 3, 80, 80), (4, 3, 3, 3), stride=33), target, Reason.STRIDE),
        (problem_of(solver, (1, 3, 80, 80), (4, 3, 3, 3), dilation=2), target, Reason.DILATION),
        (problem_of(solver, (1, 3, 8, 8, 8), (4, 3, 3, 3, 3)), target, Reason.SPATIAL_RANK),
        (problem_of(solver, (1, 4, 40000, 40000), (4, 4, 3, 3)), target, Reason.SIZE_LIMIT),
        (problem_of(solver, (2**20, 3, 500, 3), (4, 3, 3, 3)), target, Reason.SIZE_LIMIT),
    ):
        answer = solver.takes(problem, device)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason
    tall = problem_of(solver, (1, 1, 20000, 8000), (4, 1, 500, 1))
    assert not solver.takes(tall, target)
    index = solver.wti(first, target)
    assert index is not None
    assert 0.01 < index < 1


@pytest.mark.parametrize("channels_last", [False, True])
def test_weights_make_do_with_less_workspace(channels_last: bool) -> None:
    solver = CpuFirstWeights(channels_last=channels_last)
    problem = problem_of(solver, (16, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2)
    target = replace(MOCK_TARGET, identity="", kind=DeviceKind.CPU, compute_units=8)
    most = solver.workspace_size(problem, target)
    assert most >= 8 * problem.nbytes("w")
    for limit in (most // 2, 0):
        needed = solver.workspace_size(problem, target, limit)
        assert needed <= max(limit, 2 * problem.nbytes("w"))
        assert solver.solution(problem, target, workspace_limit=limit).workspace == needed


@pytest.mark.parametrize("channels_last", [False, True])
def test_parts_of_long_rows_and_phases_without_taps(
    channels_last: bool, convfind_device: Device
) -> None:
    solver = CpuNarrow(Direction.BACKWARD_DATA, channels_last=channels_last)
    shapes = [
        problem_of(solver, x, (4, 2, 3, 2), stride=(5, 4), padding=padding, beta=-1.0)
        for x, padding in (((1, 2, 9, 9000), 0), ((2, 2, 1, 1), 40))
    ]
    report = assert_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize("channels_last", [False, True])
def test_last_layers(channels_last: bool, convfind_device: Device) -> None:
    solver = CpuNarrow(Direction.FORWARD, channels_last=channels_last)
    shapes = [
        problem_of(solver, (images, 20, *size), (3, 20, 5, 2), padding=padding, beta=beta)
        for images, size, padding, beta in (
            (2, (29, 31), 2, 0.0),
            (1, (3, 70), ((9, 1), (0, 20)), 2.0),
            (1, (5, 2), 0, 0.0),
        )
    ]
    report = assert_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)
    target = convfind_device.target
    for problem, reason in (
        (shapes[0].with_direction(Direction.BACKWARD_DATA), Reason.DIRECTION),
        (problem_of(solver, (1, 20, 8, 8), (5, 20, 3, 3)), Reason.CHANNELS),
        (problem_of(solver, (1, 20, 8, 8), (4, 20, 3, 3), stride=2), Reason.STRIDE),
    ):
        answer = solver.takes(problem, target)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_patches_of_vision_transformers_are_taken_channels_last() -> None:
    target = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)
    for channels_last in (False, True):
        solver = CpuFirst(channels_last=channels_last)
        problem = problem_of(solver, (4, 3, 224, 224), (768, 3, 16, 16), stride=16)
        assert bool(solver.takes(problem, target)) is channels_last


@each_solver
def test_the_kernel_compiles_alone(solver: First, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    problem = problem_of(solver, (1, 3, 8, 8), (4, 3, 3, 3))
    for program in solver.solution(problem, device.target).programs:
        assert device.compile(replace(program, defines=()))
