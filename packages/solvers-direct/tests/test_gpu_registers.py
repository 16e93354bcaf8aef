"""What keeps the GPU kernels for few channels a group within NVIDIA's registers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import H200

from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.types import DataType, Direction, Layout
from convfind_solvers_direct.gpu.conv import GpuDirect
from convfind_solvers_direct.gpu.pixels import PixelsConv
from convfind_solvers_direct.gpu.pixels_weights import PixelsWeights
from convfind_solvers_direct.gpu.planes_weights import PlanesWeights

F32, F16 = DataType.FLOAT32, DataType.FLOAT16


def depthwise(
    solver: GpuDirect, taps: int, dtype: DataType = F32, *, channels: int = 1, stride: int = 1
) -> ConvProblem:
    layout = Layout.NHWC if solver.channels_last else Layout.NCHW
    return ConvProblem.create(
        solver.direction,
        (8, 64, 28, 28),
        (64, channels, taps, taps),
        layout=layout,
        dtype=dtype,
        groups=64 // channels,
        padding=taps // 2,
        stride=stride,
    )


def program_of(solver: GpuDirect, problem: ConvProblem) -> tuple[dict[str, object], bool]:
    """The macros of a solver's first program, and whether it may take all registers."""
    program = solver.solution(problem, H200).programs[0]
    plain = solver.solution(problem, replace(H200, identity="", features=frozenset())).programs[0]
    assert not plain.options
    limited = any("maxrregcount" in option for option in program.options)
    return dict(program.defines), limited


@pytest.mark.parametrize(
    ("taps", "dtype", "stepped", "chunk"),
    [
        (3, F32, False, 3),
        (3, F16, True, 3),
        (5, F32, True, 5),
        (9, F32, True, 9),
        (11, F16, True, 5),
        (21, F32, True, 2),
        (31, F32, True, 1),
    ],
)
def test_offsets_and_sums_of_large_filters_are_few(
    taps: int, dtype: DataType, stepped: bool, chunk: int
) -> None:
    solver = PixelsWeights()
    macros, limited = program_of(solver, depthwise(solver, taps, dtype))
    assert ("STEPPED" in macros) is stepped
    assert macros["CHUNK"] == chunk
    assert not limited


def test_sums_and_gradients_fit_registers_together() -> None:
    solver = PixelsWeights()
    for taps, rows, legal in ((5, 16, True), (7, 16, True), (9, 8, True), (9, 10, False)):
        problem = depthwise(solver, taps)
        space = solver.search_space(problem, H200)
        default = solver.default_config(problem, H200)
        assert default in space
        # What packages ship stays legal, so that its record is not lost.
        assert default.replace(rows=7, columns=4) in space
        config: Config = default.replace(rows=rows, columns=4)
        assert (config in space) is legal


@pytest.mark.parametrize(
    ("solver", "taps", "dtype", "channels", "stride", "limited"),
    [
        (PlanesWeights(), 3, F32, 4, 1, False),
        (PlanesWeights(), 3, F16, 1, 1, False),
        (PlanesWeights(), 3, F16, 4, 1, True),
        (PlanesWeights(), 27, F16, 1, 1, True),
        (PlanesWeights(), 27, F32, 1, 1, False),
        (PixelsConv(Direction.FORWARD), 7, F16, 1, 1, False),
        (PixelsConv(Direction.FORWARD), 13, F32, 1, 1, True),
        (PixelsConv(Direction.BACKWARD_DATA), 3, F32, 1, 2, False),
        (PixelsConv(Direction.BACKWARD_DATA), 3, F16, 1, 1, False),
        (PixelsConv(Direction.BACKWARD_DATA), 3, F16, 1, 2, True),
    ],
)
def test_nvidias_assembler_is_told_where_it_would_spill(
    solver: GpuDirect, taps: int, dtype: DataType, channels: int, stride: int, limited: bool
) -> None:
    problem = depthwise(solver, taps, dtype, channels=channels, stride=stride)
    assert program_of(solver, problem)[1] is limited
