"""The implicit GEMM solvers for CPUs keep the contract and are right on drawn shapes."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from devices_for_tests import of_instructions, on_cpu
from drawn_shapes import assert_drawn
from hypothesis import strategies as st

from convfind.device.target import DeviceKind
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import Direction, Layout
from convfind_solvers_igemm.cpu.conv import ChannelsFirst
from convfind_solvers_igemm.cpu.few import ChannelsLastFewForward
from convfind_solvers_igemm.cpu.flat import ChannelsLastFlatForward
from convfind_solvers_igemm.cpu.rows import CpuRows
from convfind_solvers_igemm.cpu.solver import CpuSolver
from convfind_solvers_igemm.cpu.strassen import Strassen
from convfind_solvers_igemm.cpu.weights import CpuBackwardWeights
from convfind_solvers_igemm.cpu.weights_pointwise import ChannelsLastPointwiseBackwardWeights
from convfind_solvers_igemm.cpu.weights_rows import ChannelsFirstRowsBackwardWeights
from convfind_solvers_igemm.solver_list import solvers

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [
    solver
    for solver in solvers()
    if isinstance(solver, CpuSolver)
    and not isinstance(
        solver,
        (
            Strassen,
            ChannelsLastFewForward,
            ChannelsLastFlatForward,
            ChannelsLastPointwiseBackwardWeights,
        ),
    )
]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)
# These reject part of what the others take: wide filters, or strides.
PARTIAL = (CpuRows, ChannelsFirstRowsBackwardWeights)
CHANNELS_LAST = [
    s for s in SOLVERS if s.channels_last and s.direction is not Direction.BACKWARD_WEIGHTS
]


@each_solver
def test_the_conformance_kit_finds_nothing(solver: CpuSolver, convfind_device: Device) -> None:
    report = assert_solver(solver, on_cpu(convfind_device))
    assert len(report.problems) > 20


@st.composite
def problems(draw: st.DrawFn, solver: CpuSolver) -> ConvProblem:
    """Draw a problem of the solver's direction and layout; what is impossible is drawn again."""
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    small = st.integers(1, 40 if rank < 3 else 9)
    axes = st.lists(small, min_size=rank, max_size=rank).map(tuple)
    window = draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank).map(tuple))
    channels = draw(st.integers(1, 40))
    stride = tuple(draw(st.integers(1, 4)) for _ in window)
    try:
        return ConvProblem.create(
            solver.direction,
            (draw(st.integers(1, 3)), groups * channels, *draw(axes)),
            (groups * draw(st.integers(1, 40)), channels, *window),
            groups=groups,
            stride=stride,
            dilation=draw(st.integers(1, 3)),
            padding=tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in window),
            alpha=draw(st.sampled_from((1.0, 0.5))),
            beta=draw(st.sampled_from((0.0, 2.0))),
            layout=Layout.of(rank, channels_last=solver.channels_last),
        )
    except ProblemError:
        return draw(st.nothing())


@each_solver
def test_drawn_shapes(solver: CpuSolver, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)

    # Many at a time: each call of the kit compiles the kernels once.
    drawn = st.lists(problems(solver), min_size=12, max_size=24)
    assert_drawn(solver, device, drawn, refuses=isinstance(solver, PARTIAL))


@each_solver
def test_sums_longer_than_a_block_and_strides_than_a_row(
    solver: CpuSolver, convfind_device: Device
) -> None:
    device = on_cpu(convfind_device)
    layout = Layout.of(2, channels_last=solver.channels_last)
    shapes = [
        ConvProblem.create(
            solver.direction, (2, 70, 9, 9), (70, 70, 3, 3), padding=1, beta=0.5, layout=layout
        ),
        ConvProblem.create(
            solver.direction, (1, 2, 20, 20), (3, 2, 19, 17), padding=9, layout=layout
        ),
        ConvProblem.create(solver.direction, (3, 600, 5, 5), (530, 600, 1, 1), layout=layout),
        # Two columns of a stride of three: two phases, and not in turns.
        ConvProblem.create(
            *(solver.direction, (1, 1, 9, 2), (1, 1, 1, 1)),
            stride=(1, 3),
            padding=((0, 0), (0, 2)),
            layout=layout,
        ),
    ]
    assert_solver(solver, device, shapes=shapes, every_variant=False)


@pytest.mark.parametrize("solver", CHANNELS_LAST, ids=lambda s: s.solver_id)
def test_large_results_and_gaps_of_strided_gradients(
    solver: CpuSolver, convfind_device: Device
) -> None:
    """Results that go past the caches, of whole lines or not, and the zeros between them."""
    layout = Layout.of(2, channels_last=True)
    # Channels and size of x, filters, stride, beta; the first two results of each are large.
    forward = ((8, (64, 65), 144, 1, 0.0), (8, (64, 65), 132, 1, 0.0), (40, (11, 9), 24, 2, 0.5))
    gradient = (
        (112, (56, 56), 24, 2, 0.0),
        (100, (57, 58), 24, (2, 1), 0.0),
        (16, (31, 29), 24, (3, 2), 0.0),
        (40, (11, 9), 24, 2, 0.5),
        (33, (10, 9), 24, (4, 3), 0.0),  # more phases than are written together
    )
    is_forward = solver.direction is Direction.FORWARD
    shapes = [
        ConvProblem.create(
            *(
                solver.direction,
                (1 if is_forward else 2, channels, *size),
                (filters, channels, 1, 1),
            ),
            stride=stride,
            beta=beta,
            layout=layout,
        )
        for channels, size, filters, stride, beta in (forward if is_forward else gradient)
    ]
    assert_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)


@pytest.mark.parametrize("arch", ["x86-64-avx2", "aarch64"])
@pytest.mark.parametrize("solver", CHANNELS_LAST, ids=lambda s: s.solver_id)
def test_windows_of_several_tiles_are_held_at_a_time(
    solver: CpuSolver, arch: str, convfind_device: Device
) -> None:
    """More positions than are held, and some tiles that are not full, in one work-item."""
    device = of_instructions(on_cpu(convfind_device), arch)
    layout = Layout.of(2, channels_last=True)
    rest: dict[str, Any] = {"bias": True, "add": True, "activation": "relu", "layout": layout}
    shapes = [
        ConvProblem.create(solver.direction, (2, 530, 30, 31), (20, 530, 1, 1), **rest),
        ConvProblem.create(solver.direction, (2, 40, 41, 40), (20, 40, 3, 3), padding=1, **rest),
        ConvProblem.create(solver.direction, (2, 30, 61, 63), (20, 30, 1, 1), stride=2, **rest),
    ]
    assert_solver(solver, device, shapes=shapes, every_variant=False)


GRADIENTS = [solver for solver in CHANNELS_LAST if solver.direction is Direction.BACKWARD_DATA]


@pytest.mark.parametrize("solver", GRADIENTS, ids=lambda s: s.solver_id)
def test_what_lies_between_long_sums_gets_its_activation(
    solver: CpuSolver, convfind_device: Device
) -> None:
    """Sums of several blocks are complete in the last one, and results without any in the first."""
    rest: dict[str, Any] = {"stride": 2, "bias": True, "add": True, "activation": "silu"}
    last = Layout.of(2, channels_last=True)
    problem = ConvProblem.backward_data((2, 24, 9, 8), (600, 24, 1, 1), layout=last, **rest)
    shapes = (problem, replace(problem, add_last=True))
    assert_solver(solver, on_cpu(convfind_device), shapes=shapes, every_variant=False)


@pytest.mark.parametrize("arch", ["x86-64-avx2", "aarch64"])
@pytest.mark.parametrize("solver", CHANNELS_LAST, ids=lambda s: s.solver_id)
def test_half_a_vector_of_filters_is_left(
    solver: CpuSolver, convfind_device: Device, arch: str
) -> None:
    """Groups of whole halves, of less and of more; sums of several blocks; strides."""

    def problem(channels: int, groups: int, taps: int, size: int, **options: Any) -> ConvProblem:
        return ConvProblem.create(
            solver.direction,
            (2, channels * groups, size, size + 2),
            (channels * groups, channels, taps, taps),
            padding=taps // 2,
            groups=groups,
            layout=Layout.of(2, channels_last=True),
            **options,
        )

    shapes = [
        problem(24, 3, 3, 7, bias=True, add=True, activation="relu"),
        problem(24, 2, 3, 9, stride=2, beta=0.5),
        problem(8, 4, 5, 6, bias=True, activation="silu"),
        problem(5, 2, 3, 5),
        problem(41, 2, 3, 4, beta=2.0),
        problem(25, 2, 3, 4),
        problem(40, 1, 5, 5, bias=True),
        problem(24, 2, 1, 11, bias=True, add=True),
        problem(24, 1, 1, 6, stride=2, bias=True),
    ]
    device = of_instructions(on_cpu(convfind_device), arch)
    assert_solver(solver, device, shapes=shapes, every_variant=False)


@each_solver
def test_other_devices_and_sizes_are_refused(solver: CpuSolver, convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    layout = Layout.of(2, channels_last=solver.channels_last)
    small = ConvProblem.create(solver.direction, (1, 4, 8, 8), (4, 4, 3, 3), layout=layout)
    answer = solver.takes(small, replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU))
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.DEVICE_KIND
    large = ConvProblem.create(solver.direction, (1, 1, 2**16, 2**16), (1, 1, 1, 1), layout=layout)
    answer = solver.takes(large, device.target)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.SIZE_LIMIT


# In turns: each kernel is compiled with both.
@pytest.mark.parametrize(
    ("solver", "arch"),
    list(zip(SOLVERS, cycle(["x86-64-avx2", "aarch64"]))),
    ids=lambda v: getattr(v, "solver_id", v),
)
def test_register_tiles_of_other_instruction_sets(
    solver: CpuSolver, arch: str, convfind_device: Device
) -> None:
    device = of_instructions(on_cpu(convfind_device), arch)
    layout = Layout.of(2, channels_last=solver.channels_last)
    shapes = [
        ConvProblem.create(
            solver.direction, (2, 35, 9, 7), (23, 35, 3, 3), padding=1, beta=0.5, layout=layout
        ),
        ConvProblem.create(solver.direction, (3, 40, 5, 5), (34, 40, 1, 1), layout=layout),
    ]
    assert_solver(solver, device, shapes=shapes, every_variant=False)


@pytest.mark.parametrize(
    ("taps", "dilation", "reason"),
    [(3, 100, Reason.DILATION), (9, 1, Reason.FILTER_SIZE)],
    ids=["wide", "many taps"],
)
@pytest.mark.parametrize(
    "solver", [s for s in SOLVERS if isinstance(s, CpuRows)], ids=lambda s: s.solver_id
)
def test_rows_refuse_windows_that_their_strip_cannot_hold(
    solver: CpuSolver, taps: int, dilation: int, reason: Reason, convfind_device: Device
) -> None:
    device = on_cpu(convfind_device)
    problem = ConvProblem.create(
        solver.direction,
        (1, 4, 300, 300),
        (4, 4, taps, taps),
        dilation=dilation,
        layout=Layout.of(2, channels_last=solver.channels_last),
    )
    answer = solver.takes(problem, device.target)
    assert isinstance(answer, Rejected)
    assert answer.reason is reason


@pytest.mark.parametrize(
    "solver", [s for s in SOLVERS if type(s) is ChannelsFirst], ids=lambda s: s.solver_id
)
def test_short_sums_take_the_program_of_long_ones(
    solver: CpuSolver, convfind_device: Device
) -> None:
    device = on_cpu(convfind_device)
    shapes = [
        ConvProblem.create(solver.direction, (1, channels, 4, 5), (channels, channels, taps, taps))
        for channels, taps in ((8, 1), (600, 1), (8, 3))
    ]
    programs = {solver.solution(problem, device.target).programs for problem in shapes}
    assert len(programs) == 1
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert not report.rejected


@pytest.mark.parametrize(
    "solver", [s for s in SOLVERS if isinstance(s, CpuRows)], ids=lambda s: s.solver_id
)
def test_one_position_along_a_row_takes_the_program_of_many(
    solver: CpuSolver, convfind_device: Device
) -> None:
    device = on_cpu(convfind_device)
    layout = Layout.of(2, channels_last=solver.channels_last)
    shapes = [
        ConvProblem.create(
            solver.direction, (2, 3, 5, width), (20, 3, 2, 2), stride=3, padding=1, layout=layout
        )
        for width in (1, 2, 30)
    ]
    programs = {solver.solution(problem, device.target).programs for problem in shapes}
    assert len(programs) == 1
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert not report.rejected


@pytest.mark.parametrize(
    "solver", [s for s in SOLVERS if isinstance(s, CpuBackwardWeights)], ids=lambda s: s.solver_id
)
def test_long_sums_are_split_as_far_as_the_workspace_goes(
    solver: CpuBackwardWeights, convfind_device: Device
) -> None:
    device = on_cpu(convfind_device)
    target = replace(device.target, identity="", compute_units=8)
    layout = Layout.of(2, channels_last=solver.channels_last)
    problem = ConvProblem.create(
        solver.direction, (4, 16, 40, 40), (16, 16, 3, 3), padding=1, layout=layout
    )
    part = problem.nbytes("w")
    most = solver.workspace_size(problem, target)
    assert most >= 4 * part
    assert solver.workspace_size(problem, target, most // 2) <= most // 2
    assert solver.workspace_size(problem, target, 0) <= part
    assert_solver(solver, device, shapes=[problem], every_variant=False)


def test_strips_of_the_weights_gradient_have_an_end(convfind_device: Device) -> None:
    device = on_cpu(convfind_device)
    solver = ChannelsFirstRowsBackwardWeights()
    far = ConvProblem.create(
        solver.direction, (1, 4, 9, 3000), (4, 4, 3, 3), dilation=(1, 1400), padding=(1, 0)
    )
    many = ConvProblem.create(solver.direction, (1, 4, 20, 20), (4, 4, 9, 9))
    for problem, reason in ((far, Reason.DILATION), (many, Reason.FILTER_SIZE)):
        answer = solver.takes(problem, device.target)
        assert isinstance(answer, Rejected)
        assert answer.reason is reason


def test_rows_longer_than_a_block_images_that_share_one_and_whole_sums(
    convfind_device: Device,
) -> None:
    device = on_cpu(convfind_device)
    solver = ChannelsFirstRowsBackwardWeights()
    shapes = [
        ConvProblem.create(solver.direction, (2, 35, 3, 600), (13, 35, 3, 3), padding=1, beta=0.5),
        ConvProblem.create(solver.direction, (5, 40, 9, 9), (30, 40, 3, 3), padding=1, stride=2),
        ConvProblem.create(solver.direction, (1, 70, 40, 12), (100, 70, 3, 3), padding=1, beta=0.5),
    ]
    assert_solver(solver, device, shapes=shapes, every_variant=False)
