"""Tiles of single channels in local memory keep the contract, on all kinds of edges."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from devices_for_tests import H200, PLAIN_GPU, as_small_gpu, mostly_as_written
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import BufferArg, Launch, TensorMapArg
from convfind.testing import assert_solver
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.tiles import TilesConv
from convfind_solvers_direct.window import window

pytest_plugins = ["convfind.testing.fixtures"]

SOLVERS = [TilesConv(direction) for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.solver_id)
CUDA = replace(H200, backend="cuda")


def problem_of(
    solver: TilesConv, x: tuple[int, ...], w: tuple[int, ...], **options: object
) -> ConvProblem:
    options = {"groups": w[0], **options}
    layout = Layout.of(len(x) - 2, channels_last=True)
    return ConvProblem.create(solver.direction, x, w, layout=layout, **options)  # type: ignore[arg-type]


def shapes_of(solver: TilesConv, dtype: DataType) -> list[ConvProblem]:
    """Edges of tiles, slices and images; epilogues."""
    step: dict[str, object] = {"stride": (2, 1)} if solver.direction is Direction.FORWARD else {}
    far: dict[str, object] = {"stride": 2} if solver.direction is Direction.FORWARD else {}
    shapes = [
        problem_of(solver, (2, 72, 9, 19), (72, 1, 3, 3), padding=((0, 1), (2, 1))),
        problem_of(solver, (1, 16, 15, 14), (16, 1, 3, 3), padding=1, **far),
        problem_of(solver, (2, 24, 12, 13), (24, 1, 5, 5), padding=2, beta=2.0, **step),
        problem_of(solver, (1, 8, 11, 9), (8, 1, 7, 5), padding=(3, 0), dilation=(1, 2)),
        problem_of(solver, (1, 40, 4, 5), (40, 1, 2, 4), padding=(1, 3), bias=True, add=True),
        problem_of(solver, (3, 96, 7, 7), (96, 1, 3, 3), padding=1, activation="silu"),
        problem_of(solver, (1, 8, 6, 6), (8, 1, 7, 7), padding=3, bias=True, activation="relu"),
        problem_of(solver, (3, 16, 50), (16, 1, 5), padding=2, **far),
    ]
    return [replace(one, dtype=dtype, y_dtype=dtype) for one in shapes]


@each
@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16])
def test_edges_of_tiles(solver: TilesConv, dtype: DataType, convfind_device: Device) -> None:
    device = mostly_as_written(as_small_gpu(convfind_device))
    shapes = shapes_of(solver, dtype)
    report = assert_solver(solver, device, shapes=shapes, every_variant=False)
    assert len(report.problems) >= len(shapes)


@st.composite
def problems(draw: st.DrawFn, solver: TilesConv) -> list[ConvProblem]:
    """Draw a window, and problems with it: they share a program."""
    taps = tuple(draw(st.integers(1, 6)) for _ in range(2))
    dilation = tuple(draw(st.integers(1, 2)) for _ in range(2))
    is_forward = solver.direction is Direction.FORWARD
    stride = tuple(draw(st.integers(1, 3)) if is_forward else 1 for _ in range(2))
    channels = 8 * draw(st.integers(1, 9))

    def one() -> ConvProblem:
        padding = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(2))
        return problem_of(
            solver,
            (draw(st.integers(1, 2)), channels, draw(st.integers(1, 30)), draw(st.integers(1, 30))),
            (channels, 1, *taps),
            stride=stride,
            dilation=dilation,
            padding=padding,
            beta=draw(st.sampled_from((0.0, 2.0))),
        )

    return legal(one, 6)


@each
def test_drawn_shapes(solver: TilesConv, convfind_device: Device) -> None:
    assert_drawn(solver, as_small_gpu(convfind_device), problems(solver))


class Pinned(TilesConv):
    """The solver with a config of the test's choice."""

    config = Config()

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        return self.config


def test_every_shape_of_tile_computes_the_same(convfind_device: Device) -> None:
    solver, device = Pinned(Direction.FORWARD), mostly_as_written(as_small_gpu(convfind_device))
    wide = problem_of(solver, (1, 72, 17, 23), (72, 1, 3, 3), padding=1, bias=True)
    for dtype, size, across, columns, down, rows, lanes in (
        (DataType.FLOAT32, 64, 1, 7, 2, 2, 2),
        (DataType.FLOAT32, 40, 2, 4, 1, 4, 1),
        (DataType.FLOAT32, 16, 8, 1, 3, 2, 4),
        (DataType.FLOAT16, 72, 3, 5, 2, 3, 4),
        (DataType.FLOAT16, 8, 4, 2, 2, 14, 2),
        (DataType.BFLOAT16, 128, 1, 4, 2, 1, 2),
    ):
        solver.config = Config(
            slice=size, across=across, columns=columns, down=down, rows=rows, lanes=lanes
        )
        problem = replace(wide, dtype=dtype, y_dtype=dtype)
        assert solver.config in solver.search_space(problem, device.target), solver.config
        report = assert_solver(solver, device, shapes=[problem], every_variant=False)
        assert report.problems == [problem.key]


@each
def test_the_copy_engine_is_told_of_the_tile(solver: TilesConv) -> None:
    stride = 2 if solver.direction is Direction.FORWARD else 1
    for dtype in (DataType.FLOAT32, DataType.FLOAT16):
        problem = replace(
            problem_of(solver, (3, 72, 30, 41), (72, 1, 5, 3), padding=(2, 1), stride=stride),
            dtype=dtype,
            y_dtype=dtype,
        )
        source = problem.shape(window(problem).source)
        (launch,) = solver.solution(problem, CUDA).steps
        assert isinstance(launch, Launch)
        told = launch.arguments[0]
        assert isinstance(told, TensorMapArg)
        assert told.sizes == (72, source[3], source[2], 3)
        assert told.strides == (72, 72 * source[3], 72 * source[3] * source[2])
        macros = dict(launch.kernel.program.defines)
        assert macros["BY_MAP"]
        size, across, columns, down, rows = (
            int(macros[name]) for name in ("SLICE", "ACROSS", "COLUMNS", "DOWN", "ROWS")
        )
        places = (across * columns - 1) * stride + 3, (down * rows - 1) * stride + 5
        assert told.box == (size, *places, 1)
        assert size * dtype.size % 16 == 0
        # Elsewhere, and before Hopper, items copy.
        for other in (PLAIN_GPU, replace(CUDA, identity="", arch="sm_86")):
            (launch,) = solver.solution(problem, other).steps
            assert isinstance(launch, Launch)
            assert launch.arguments[0] == BufferArg(window(problem).source)
            assert not dict(launch.kernel.program.defines)["BY_MAP"]


@each
@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.FLOAT16])
def test_default_tiles_are_legal_and_have_an_index(solver: TilesConv, dtype: DataType) -> None:
    steps = (1, 2, 3) if solver.direction is Direction.FORWARD else (1,)
    for channels, size, taps, stride in itertools.product(
        (8, 24, 72, 144, 960), (1, 7, 14, 56, 113), (1, 3, 5, 7), steps
    ):
        plain = problem_of(
            solver,
            (2, channels, size, size),
            (channels, 1, taps, taps),
            padding=taps // 2,
            stride=stride,
        )
        problem = replace(plain, dtype=dtype, y_dtype=dtype)
        assert solver.takes(problem, PLAIN_GPU), problem
        config = solver.default_config(problem, PLAIN_GPU)
        assert solver.search_space(problem, PLAIN_GPU).broken_constraint(config) is None
        index = solver.wti(problem, PLAIN_GPU)
        assert index is not None
        assert 0.01 < index < 1


@each
def test_other_problems_and_devices_are_refused(solver: TilesConv) -> None:
    small = problem_of(solver, (1, 16, 8, 8), (16, 1, 3, 3))
    assert solver.takes(small, PLAIN_GPU)
    refused = [
        (small, replace(PLAIN_GPU, identity="", kind=DeviceKind.CPU), Reason.DEVICE_KIND),
        (small, replace(PLAIN_GPU, identity="", local_memory=32768), Reason.LOCAL_MEMORY),
        (problem_of(solver, (1, 10, 8, 8), (10, 1, 3, 3)), PLAIN_GPU, Reason.CHANNELS),
        (problem_of(solver, (1, 16, 8, 8), (16, 2, 3, 3), groups=8), PLAIN_GPU, Reason.GROUPS),
        (problem_of(solver, (1, 16, 40, 40), (16, 1, 17, 17)), PLAIN_GPU, Reason.FILTER_SIZE),
        (problem_of(solver, (70000, 16, 1, 1), (16, 1, 1, 1)), PLAIN_GPU, Reason.SIZE_LIMIT),
    ]
    if solver.direction is Direction.BACKWARD_DATA:
        strided = problem_of(solver, (1, 16, 9, 9), (16, 1, 3, 3), stride=2)
        refused.append((strided, PLAIN_GPU, Reason.STRIDE))
    for problem, target, reason in refused:
        answer = solver.takes(problem, target)
        assert isinstance(answer, Rejected), problem
        assert answer.reason == reason


def test_the_kernel_compiles_alone(convfind_device: Device) -> None:
    device = as_small_gpu(convfind_device)
    problem = problem_of(SOLVERS[0], (1, 8, 8, 8), (8, 1, 3, 3))
    for program in SOLVERS[0].solution(problem, device.target).programs:
        assert device.compile(replace(program, defines=()))
