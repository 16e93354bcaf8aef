"""The solvers for few channels a group keep the contract and are right on drawn shapes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from devices_for_tests import PLAIN_GPU, as_small_gpu, disguised, mostly_as_written, on_cpu
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.device.target import DeviceKind
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver import TunableSolver
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver, edge_cases
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.cpu.conv import CpuDirect
from convfind_solvers_direct.cpu.weights import CpuGroupsWeights
from convfind_solvers_direct.gpu.chain import ChainConv
from convfind_solvers_direct.gpu.conv import GpuDirect
from convfind_solvers_direct.gpu.lines import LinesConv
from convfind_solvers_direct.gpu.pixels import PixelsConv
from convfind_solvers_direct.gpu.pixels_weights import PixelsWeights
from convfind_solvers_direct.gpu.tiles import TilesConv
from convfind_solvers_direct.gpu.wide import WideConv
from convfind_solvers_direct.gpu.wide_weights import WideWeights
from convfind_solvers_direct.nvidia.groups import GroupsConv
from convfind_solvers_direct.nvidia.stages import StagesConv
from convfind_solvers_direct.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

FewChannels = CpuDirect | GpuDirect
# These have tests of their own.
OF_FEW_SHAPES = (
    WideConv
    | WideWeights
    | LinesConv
    | ChainConv
    | TilesConv
    | GroupsConv
    | StagesConv
    | CpuGroupsWeights
)
SOLVERS = [
    solver
    for solver in solvers()
    if isinstance(solver, FewChannels) and not isinstance(solver, OF_FEW_SHAPES)
]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)


def device_for(solver: FewChannels, device: Device) -> Device:
    """The device, as if it were a PLAIN_GPU for kernels that are made for GPUs."""
    if isinstance(solver, CpuDirect):
        return on_cpu(device)
    return as_small_gpu(device)


def problem_of(
    solver: FewChannels, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    layout = Layout.of(len(x) - 2, channels_last=solver.channels_last)
    return ConvProblem.create(solver.direction, x, w, layout=layout, **options)  # type: ignore[arg-type]


def shapes_of(solver: FewChannels) -> list[ConvProblem]:
    """Edges of vectors, strips, bands and tiles."""
    return [
        problem_of(solver, (2, 20, 9, 19), (20, 1, 3, 3), groups=20, padding=((0, 1), (2, 1))),
        problem_of(solver, (2, 8, 15, 14), (8, 1, 3, 3), groups=8, padding=1, stride=2),
        problem_of(solver, (2, 16, 20, 21), (16, 4, 3, 3), groups=4, padding=1, beta=2.0),
        problem_of(solver, (2, 24, 7, 10), (24, 8, 3, 3), groups=3, padding=1),
        problem_of(solver, (1, 3, 20, 37), (3, 1, 5, 4), groups=3, padding=2, stride=(3, 2)),
        problem_of(solver, (1, 2, 30, 33), (2, 1, 11, 11), groups=2, padding=5, dilation=(1, 2)),
        problem_of(solver, (1, 2, 300, 57), (2, 1, 4, 3), groups=2, padding=1, stride=(2, 3)),
        problem_of(solver, (1, 2, 11, 3000), (2, 1, 3, 5), groups=2, padding=(1, 2)),
        problem_of(solver, (1, 6, 9, 10), (8, 3, 3, 2), groups=2, dilation=2, padding=2),
        problem_of(solver, (3, 6, 50), (6, 1, 5), groups=6, padding=2, stride=2),
    ]


@each_solver
def test_edges_of_tiles(solver: FewChannels, convfind_device: Device) -> None:
    device = mostly_as_written(device_for(solver, convfind_device))
    shapes = shapes_of(solver)
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) >= min(len(shapes), 7)


@pytest.mark.parametrize(
    "solver", [s for s in SOLVERS if isinstance(s, CpuDirect)], ids=lambda s: s.solver_id
)
def test_tiles_of_other_instruction_sets(solver: CpuDirect, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    wide = "x86-64-avx512"
    other = disguised(device, arch="x86-64-avx2" if device.target.arch == wide else wide)
    report = assert_solver(solver, other, shapes=shapes_of(solver), every_variant=False)
    assert len(report.problems) >= 7


@pytest.mark.parametrize(
    "solver",
    [s for s in SOLVERS if isinstance(s, CpuDirect) and s.channels_last],
    ids=lambda s: s.solver_id,
)
def test_channels_that_are_no_whole_vectors(solver: CpuDirect, convfind_device: Device) -> None:
    shapes = [
        problem_of(solver, (1, c, *size), (c, 1, 3, 3), groups=c, padding=1)
        for c, size in ((9, (6, 8)), (12, (4, 7)), (17, (3, 2)), (4, (9, 9)), (104, (53, 52)))
    ]
    report = assert_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16])
@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_items_of_some_channels_of_16_bits(
    direction: Direction, dtype: DataType, convfind_device: Device
) -> None:
    solver, device = PixelsConv(direction), mostly_as_written(as_small_gpu(convfind_device))
    shapes = [
        problem_of(
            solver, (2, c, 9, 11), (c, 1, *w), groups=c, padding=1, stride=s, dtype=dtype, **how
        )
        for c, w, s, how in (
            (12, (3, 3), 1, {"bias": True, "activation": "hard-swish"}),
            (8, (3, 3), 2, {"add": True, "beta": 0.5}),
            (6, (3, 2), 1, {"beta": 2.0}),
            (10, (5, 5), 2, {"bias": True, "add": True, "activation": "relu", "add_last": True}),
            (4, (5, 5), 1, {}),
            (4, (9, 9), 1, {}),
        )
        if direction is Direction.FORWARD or not how.get("bias")
    ]
    lanes = {solver.default_config(problem, device.target).integer("lanes") for problem in shapes}
    assert lanes == {1, 2, 4}
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16])
def test_weights_of_some_channels_of_16_bits(dtype: DataType, convfind_device: Device) -> None:
    solver, device = PixelsWeights(), mostly_as_written(as_small_gpu(convfind_device))
    shapes = [
        problem_of(solver, (2, c, *size), (c, 1, *w), groups=c, padding=1, stride=s, dtype=dtype)
        for c, size, w, s in (
            (12, (9, 11), (3, 3), 1),
            (40, (17, 19), (3, 3), 1),
            (8, (9, 11), (3, 3), 2),
            (6, (9, 11), (3, 2), 1),
            (10, (9, 11), (5, 5), 2),
            (4, (9, 11), (9, 9), 1),
            (7, (9, 11), (3, 3), 1),
        )
    ]
    lanes = {solver.default_config(problem, device.target).integer("lanes") for problem in shapes}
    assert lanes == {1, 2, 4}
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) == len(shapes)


@each_solver
def test_types_and_edge_cases(solver: FewChannels, convfind_device: Device) -> None:
    device = device_for(solver, convfind_device)
    shapes = [case for case in edge_cases() if case.groups == case.x_shape[1] > 1]
    report = assert_solver(solver, device, shapes=shapes)
    assert len(report.problems) >= (3 if isinstance(solver, GpuDirect) else 1)


@st.composite
def problems(draw: st.DrawFn, solver: FewChannels) -> list[ConvProblem]:
    """Draw a window, and problems with it: they share a program."""
    rank = draw(st.integers(1, 2))
    window = tuple(draw(st.integers(1, 7)) for _ in range(rank))
    stride = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    dilation = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    uneven = () if isinstance(solver, CpuDirect) and solver.channels_last else ((1, 2), (3, 2))
    channels, filters = draw(st.sampled_from(((1, 1), (2, 2), (8, 8), *uneven)))

    def one() -> ConvProblem:
        groups = draw(st.integers(2, 18))
        axes = tuple(draw(st.integers(1, 40)) for _ in range(rank))
        padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(rank))
        return problem_of(
            solver,
            (draw(st.integers(1, 3)), groups * channels, *axes),
            (groups * filters, channels, *window),
            groups=groups,
            stride=stride,
            dilation=dilation,
            padding=padding,
            beta=draw(st.sampled_from((0.0, 2.0))),
        )

    return legal(one, 8)


@each_solver
def test_drawn_shapes(solver: FewChannels, convfind_device: Device) -> None:
    device = device_for(solver, convfind_device)
    assert_drawn(solver, device, problems(solver))


@each_solver
def test_other_problems_and_devices_are_refused(solver: FewChannels) -> None:
    is_cpu = isinstance(solver, CpuDirect)
    target = replace(PLAIN_GPU, identity="", kind=DeviceKind.CPU) if is_cpu else PLAIN_GPU
    small = problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), groups=4)
    assert solver.takes(small, target)
    other = next(d for d in Direction if d is not solver.direction)
    for problem, device, reason in (
        (
            small,
            PLAIN_GPU if is_cpu else replace(PLAIN_GPU, identity="", kind=DeviceKind.CPU),
            "device-kind",
        ),
        (small.with_direction(other), target, Reason.DIRECTION),
        (replace(small, dtype=DataType.FLOAT64, y_dtype=DataType.FLOAT64), target, Reason.DTYPE),
        (problem_of(solver, (1, 4, 8, 8), (4, 4, 3, 3)), target, Reason.GROUPS),
        (problem_of(solver, (1, 32, 8, 8), (32, 16, 3, 3), groups=2), target, Reason.CHANNELS),
        (
            problem_of(solver, (1, 2, 8, 8, 8), (2, 1, 3, 3, 3), groups=2),
            target,
            Reason.SPATIAL_RANK,
        ),
        (
            problem_of(solver, (1, 2, 80, 80), (2, 1, 65, 3), groups=2),
            target,
            Reason.FILTER_SIZE,
        ),
        (problem_of(solver, (1, 2, 80, 80), (2, 1, 3, 3), groups=2, stride=9), target, "stride"),
        (
            problem_of(solver, (1, 2, 300, 300), (2, 1, 3, 3), groups=2, dilation=90),
            target,
            Reason.DILATION,
        ),
        (
            problem_of(solver, (1, 2, 2**15, 2**15), (2, 1, 1, 1), groups=2),
            target,
            Reason.SIZE_LIMIT,
        ),
    ):
        answer = solver.takes(problem, device)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


@each_solver
def test_the_index_is_between_last_resorts_and_the_peak(solver: FewChannels) -> None:
    for problem in (
        problem_of(solver, (64, 144, 56, 56), (144, 1, 3, 3), groups=144, padding=1),
        problem_of(solver, (32, 256, 28, 28), (256, 8, 3, 3), groups=32, padding=1),
    ):
        index = solver.wti(problem, PLAIN_GPU)
        assert index is not None
        assert 0.01 < index < 0.8
    tiny = solver.wti(problem_of(solver, (1, 2, 1, 1), (2, 1, 1, 1), groups=2), PLAIN_GPU)
    assert tiny is not None
    assert 0.0 < tiny < 0.8


@pytest.mark.parametrize(
    "solver", [s for s in SOLVERS if isinstance(s, TunableSolver)], ids=lambda s: s.solver_id
)
def test_default_configs_are_legal(solver: GpuDirect) -> None:
    for x, w, groups, stride in (
        ((64, 96, 112, 112), (96, 1, 3, 3), 96, 2),
        ((64, 960, 7, 7), (960, 1, 3, 3), 960, 1),
        ((32, 256, 28, 28), (256, 8, 3, 3), 32, 1),
        ((32, 96, 56, 56), (96, 1, 7, 7), 96, 1),
        ((1, 96, 224, 224), (96, 1, 31, 31), 96, 1),
        ((8, 64, 1000), (64, 1, 3), 64, 3),
    ):
        padding = w[-1] // 2
        problem = problem_of(solver, x, w, groups=groups, stride=stride, padding=padding)
        assert solver.takes(problem, PLAIN_GPU), problem
        config = solver.default_config(problem, PLAIN_GPU)
        assert config in solver.search_space(problem, PLAIN_GPU), problem


@pytest.mark.parametrize(
    "solver",
    [s for s in SOLVERS if s.direction is Direction.BACKWARD_WEIGHTS],
    ids=lambda s: s.solver_id,
)
def test_weights_make_do_with_less_workspace(solver: FewChannels, convfind_device: Device) -> None:
    device = device_for(solver, convfind_device)
    problem = problem_of(solver, (16, 16, 20, 20), (16, 1, 3, 3), groups=16, padding=1)
    target = replace(device.target, identity="", compute_units=8)
    most = solver.workspace_size(problem, target)
    assert most >= 2 * problem.nbytes("w")
    assert solver.workspace_size(problem, target, most // 2) <= most // 2
    assert solver.workspace_size(problem, target, 0) <= problem.nbytes("w")


@pytest.mark.parametrize(
    "solver",
    [s for s in SOLVERS if s.direction is not Direction.FORWARD],
    ids=lambda s: s.solver_id,
)
def test_kernels_compile_alone(solver: FewChannels, convfind_device: Device) -> None:
    device = device_for(solver, convfind_device)
    problem = problem_of(solver, (1, 4, 8, 8), (4, 1, 3, 3), groups=4)
    for program in solver.solution(problem, device.target).programs:
        assert device.compile(replace(program, defines=()))


@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.FLOAT16])
@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_default_configs_are_legal_at_every_stride(direction: Direction, dtype: DataType) -> None:
    solver = PixelsConv(direction)
    for stride in itertools.product(range(1, 9), repeat=2):
        for channels, taps in itertools.product((2, 4), (1, 3, 5, 7)):
            x, w = (1, channels, 20, 20), (channels, 1, taps, taps)
            how: dict[str, Any] = {"stride": stride, "padding": taps // 2, "dtype": dtype}
            problem = problem_of(solver, x, w, groups=channels, **how)
            assert solver.takes(problem, PLAIN_GPU)
            config = solver.default_config(problem, PLAIN_GPU)
            assert solver.search_space(problem, PLAIN_GPU).broken_constraint(config) is None
