"""Depthwise convolutions channels last: all edges, places among others' channels, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from devices_for_tests import of_instructions, on_cpu
from drawn_shapes import assert_drawn
from hypothesis import strategies as st

from convfind.device.target import DeviceKind
from convfind.problem import Activation, ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import MOCK_TARGET, assert_solver
from convfind.types import Direction, Layout
from convfind_solvers_direct.cpu.conv import CpuDirect, CpuPixels
from convfind_solvers_direct.cpu.weights import CpuPixelsWeights

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = CpuPixels(Direction.FORWARD)
TARGET = replace(MOCK_TARGET, identity="", backend="opencl", kind=DeviceKind.CPU)


def problem_of(
    batch: int,
    channels: int,
    size: tuple[int, ...],
    window: tuple[int, ...],
    *,
    filters: int = 1,
    x_pitch: int = 0,
    y_pitch: int = 0,
    **options: Any,
) -> ConvProblem:
    """Return a problem of so many filters a channel, its pixels so far apart; 0: side by side."""
    options = {"groups": channels, "layout": Layout.of(len(size), channels_last=True), **options}
    w = (channels * filters, 1, *window)
    problem = ConvProblem.forward((batch, channels, *size), w, **options)
    x, y = (
        _strides(problem.shape(name), pitch) if pitch else None
        for name, pitch in (("x", x_pitch), ("y", y_pitch))
    )
    return replace(problem, x_strides=x, y_strides=y)


def _strides(shape: tuple[int, ...], pitch: int) -> tuple[int, ...]:
    steps = [pitch]
    for size in reversed(shape[2:]):
        steps.insert(0, steps[0] * size)
    return steps[0], 1, *steps[1:]


#: Channels that are vectors, halves, quarters and neither; whole tiles and less; borders.
SHAPES = [
    problem_of(1, 16, (9, 11), (3, 3), padding=1),
    problem_of(2, 8, (8, 13), (3, 3), padding=1, bias=True, activation="relu"),
    problem_of(1, 12, (7, 7), (5, 5), padding=2, bias=True),
    problem_of(1, 4, (6, 9), (3, 3), padding=((0, 1), (1, 0)), beta=2.0),
    problem_of(1, 29, (14, 15), (3, 3), padding=1, stride=2, alpha=0.5),
    problem_of(2, 40, (5, 6), (5, 5), padding=2, stride=2, bias=True, add=True),
    problem_of(1, 20, (3, 3), (3, 3), padding=1, bias=True, add=True, activation="silu"),
    problem_of(2, 6, (1, 2), (3, 3), padding=1),
    problem_of(1, 24, (11, 12), (3, 2), padding=2, dilation=(2, 3), add=True, add_last=True),
    problem_of(3, 10, (21,), (5,), padding=2, stride=2, bias=True),
    problem_of(1, 112, (50, 51), (3, 3), padding=1),  # an image that no cache of a core holds
    # among the channels of larger tensors
    problem_of(1, 8, (9, 10), (3, 3), padding=1, y_pitch=16, bias=True),
    problem_of(2, 12, (5, 6), (3, 3), padding=1, x_pitch=24, bias=True, activation="relu"),
    problem_of(2, 20, (7, 7), (5, 5), padding=2, x_pitch=23, y_pitch=41, beta=2.0),
    problem_of(1, 37, (9, 8), (3, 3), padding=1, stride=2, x_pitch=38, y_pitch=64, add=True),
    problem_of(1, 100, (51, 52), (3, 3), padding=1, x_pitch=200, y_pitch=104),
    problem_of(2, 16, (30,), (3,), padding=1, x_pitch=32, y_pitch=48),
    # several filters a channel
    problem_of(1, 24, (9, 11), (7, 7), filters=2, padding=3, stride=2, bias=True),
    problem_of(2, 7, (5, 6), (3, 3), filters=2, padding=1, beta=2.0),
    problem_of(1, 9, (6, 9), (3, 3), filters=4, padding=2, dilation=2, activation="relu"),
    problem_of(2, 3, (4, 5), (1, 1), filters=4, x_pitch=5, y_pitch=13, bias=True),
    problem_of(1, 5, (8, 7), (3, 3), filters=8, padding=1, add=True),
    problem_of(1, 60, (50, 51), (3, 3), filters=2, padding=1),
    problem_of(3, 21, (1, 17), (1, 5), filters=2, padding=(0, 2), x_pitch=22),
]


@pytest.mark.parametrize("arch", ["x86-64-avx2", "x86-64-avx512"])
def test_edges_of_tiles(convfind_device: Device, arch: str) -> None:
    device = of_instructions(on_cpu(convfind_device), arch)
    assert_solver(SOLVER, device, shapes=SHAPES, every_variant=False)


#: Several filters a channel: whole vectors, parts of them, strides, borders, results that count.
GRADIENTS = [
    problem_of(1, 24, (9, 11), (7, 7), filters=2, padding=3, stride=2),
    problem_of(2, 7, (5, 6), (3, 3), filters=2, padding=1, beta=2.0),
    problem_of(1, 16, (14, 15), (3, 3), filters=2, padding=1, alpha=0.5),
    problem_of(1, 9, (6, 9), (3, 3), filters=4, padding=2, dilation=2),
    problem_of(2, 8, (8, 13), (5, 5), filters=4, padding=2, stride=(2, 3)),
    problem_of(2, 3, (4, 5), (1, 1), filters=4),
    problem_of(1, 5, (8, 7), (3, 3), filters=8, padding=1, beta=1.0),
    problem_of(3, 6, (11,), (5,), filters=8, padding=2, stride=2),
    problem_of(1, 4, (25, 12), (11, 9), filters=8, padding=4),  # taps in a loop
    problem_of(1, 60, (50, 51), (3, 3), filters=2, padding=1),  # in no cache of a core
    problem_of(3, 21, (1, 17), (1, 5), filters=2, padding=(0, 2)),
]


@pytest.mark.parametrize("arch", ["x86-64-avx2", "x86-64-avx512"])
@pytest.mark.parametrize("solver", [CpuPixels(Direction.BACKWARD_DATA), CpuPixelsWeights()])
def test_gradients_of_several_filters_a_channel(
    convfind_device: Device, arch: str, solver: CpuDirect
) -> None:
    device = of_instructions(on_cpu(convfind_device), arch)
    shapes = [replace(one, direction=solver.direction) for one in GRADIENTS]
    if solver.direction is Direction.BACKWARD_DATA:  # of a transposed convolution, with an epilogue
        shapes += [
            replace(shapes[0], bias=True, add=True, beta=1.0),
            replace(shapes[4], bias=True, activation=Activation("relu")),
        ]
    assert_solver(solver, device, shapes=shapes, every_variant=False)


@pytest.mark.parametrize("direction", [Direction.BACKWARD_DATA, Direction.BACKWARD_WEIGHTS])
def test_gradients_of_several_channels_a_filter_are_refused(direction: Direction) -> None:
    layout = Layout.of(2, channels_last=True)
    problem = ConvProblem.create(direction, (1, 8, 5, 7), (4, 2, 3, 3), groups=4, layout=layout)
    solver = CpuPixelsWeights() if direction.writes == "w" else CpuPixels(direction)
    answer = solver.applicability(problem, TARGET)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.CHANNELS


def test_drawn_shapes(convfind_device: Device) -> None:
    sizes = st.lists(st.integers(1, 13), min_size=2, max_size=2).map(tuple)
    problems = st.builds(
        lambda batch, channels, size, more, filters, beta: problem_of(
            *(batch, channels, size, (3, 3)),
            filters=filters,
            padding=1,
            y_pitch=filters * channels + more,
            beta=beta,
        ),
        *(st.integers(1, 3), st.integers(2, 60), sizes, st.integers(1, 30)),
        *(st.sampled_from((1, 1, 2, 4, 8)), st.sampled_from((0.0, 2.0))),
    )
    drawn = st.lists(problems, min_size=8, max_size=16)
    assert_drawn(SOLVER, on_cpu(convfind_device), drawn, refuses=False)


def _with_strides(**strides: tuple[int, ...]) -> ConvProblem:
    return replace(problem_of(1, 8, (5, 7), (3, 3), padding=1), **strides)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (_with_strides(y_strides=(5 * 80, 1, 80, 10)), Reason.NON_PACKED),  # gaps between rows
        (_with_strides(x_strides=(70 * 8, 2, 7 * 16, 16)), Reason.NON_PACKED),  # between channels
        (_with_strides(w_strides=(18, 18, 6, 2)), Reason.NON_PACKED),
        (problem_of(1, 8, (5, 7), (3, 3), y_pitch=2**31), Reason.SIZE_LIMIT),
        (problem_of(1, 8, (30, 30), (11, 11), padding=5, y_pitch=16), Reason.NON_PACKED),
        (problem_of(1, 8, (30, 30), (11, 11), filters=2, padding=5), Reason.CHANNELS),
        (problem_of(1, 8, (5, 7), (3, 3), filters=3), Reason.CHANNELS),
    ],
)
def test_gaps_elsewhere_and_other_filters_are_refused(problem: ConvProblem, reason: Reason) -> None:
    refusal = SOLVER.applicability(problem, TARGET)
    assert isinstance(refusal, Rejected)
    assert refusal.reason is reason


def test_groups_of_several_channels_have_no_gaps() -> None:
    problem = ConvProblem.forward(
        (1, 8, 5, 7), (8, 2, 3, 3), groups=4, layout="NHWC", y_strides=(9 * 15, 1, 5 * 9, 9)
    )
    refusal = SOLVER.applicability(problem, TARGET)
    assert isinstance(refusal, Rejected)
    assert refusal.reason is Reason.NON_PACKED
