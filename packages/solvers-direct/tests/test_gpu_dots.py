"""Dot products of images of one pixel on GPUs keep the contract and are right on any sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from devices_for_tests import PLAIN_GPU, as_small_gpu, mostly_as_written
from drawn_shapes import assert_drawn, legal
from hypothesis import strategies as st

from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.backend import Device
from convfind.solver.applicability import Rejected
from convfind.testing import assert_solver
from convfind.types import DataType
from convfind_solvers_direct.gpu.dots import GpuDots

pytest_plugins = ["convfind.testing.fixtures"]

SOLVER = GpuDots()
FLOATS = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)


def linear(images: int, channels: int, filters: int, **options: object) -> ConvProblem:
    shapes = (images, channels, 1, 1), (filters, channels, 1, 1)
    return ConvProblem.forward(*shapes, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", FLOATS)
def test_rests_of_blocks_loads_and_teams(dtype: DataType, convfind_device: Device) -> None:
    device = mostly_as_written(as_small_gpu(convfind_device))
    shapes = [
        linear(5, 72, 7, dtype=dtype, bias=True, activation="relu", layout="NHWC"),
        linear(1, 1000, 9, dtype=dtype, bias=True, add=True, activation="hard-sigmoid"),
        linear(6, 6, 21, dtype=dtype, beta=2.0),
        linear(3, 5, 2, dtype=dtype, bias=True, add=True, activation="silu", add_last=True),
        linear(2, 1, 1, dtype=dtype),
        linear(9, 516, 40, dtype=dtype, layout="NHWC"),
    ]
    report = assert_solver(SOLVER, device, shapes=shapes, every_variant=False)
    assert len(report.problems) >= len(shapes)


@st.composite
def problems(draw: st.DrawFn) -> list[ConvProblem]:
    def one() -> ConvProblem:
        sizes = (draw(st.integers(1, 40)), draw(st.integers(1, 700)), draw(st.integers(1, 70)))
        return linear(*sizes, beta=draw(st.sampled_from((0.0, 2.0))))

    return legal(one, 4)


def test_drawn_shapes(convfind_device: Device) -> None:
    assert_drawn(SOLVER, as_small_gpu(convfind_device), problems())


@pytest.mark.parametrize(
    ("images", "channels", "filters", "team", "block", "together"),
    [
        (32, 672, 28, 64, (4, 1), 8),
        (32, 28, 672, 4, (4, 4), 4),
        (32, 6, 144, 2, (4, 4), 2),
        (1, 1280, 1000, 64, (1, 4), 8),
        (2, 7, 3000, 4, (2, 4), 1),
    ],
)
def test_more_items_share_longer_sums_and_blocks_leave_work_for_all(
    images: int, channels: int, filters: int, team: int, block: tuple[int, int], together: int
) -> None:
    target = replace(PLAIN_GPU, identity="", compute_units=132)
    problem = linear(images, channels, filters, dtype="float16")
    macros = dict(SOLVER.solution(problem, target).programs[0].defines)
    assert (macros["TEAM"], macros["TOGETHER"]) == (team, together)
    assert (macros["ROWS"], macros["COLUMNS"]) == block


def test_images_of_more_pixels_and_many_of_one_are_others() -> None:
    for problem, reason in (
        (ConvProblem.forward((1, 4, 2, 1), (4, 4, 1, 1)), Reason.SIZE_LIMIT),
        (linear(257, 4, 4), Reason.SIZE_LIMIT),
        (ConvProblem.forward((1, 4, 1, 1), (4, 4, 3, 3), padding=1), Reason.FILTER_SIZE),
        (linear(1, 4, 4, groups=1).with_direction("backward-data"), Reason.DIRECTION),
    ):
        answer = SOLVER.takes(problem, PLAIN_GPU)
        assert isinstance(answer, Rejected)
        assert answer.reason == reason
    small = replace(PLAIN_GPU, identity="", max_work_group=32)
    assert not SOLVER.takes(linear(1, 4, 4), small)
