"""The pitch of a tensor, of a result alone: what has one, and how it is told from other gaps."""

from __future__ import annotations

from typing import Any

import pytest

from convfind.kit.pixel_pitch import has_only_pitch, pixel_pitch, result_pitch, without_gaps
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import Rejected
from convfind.types import Direction


def problem_of(direction: Direction = Direction.FORWARD, **options: Any) -> ConvProblem:
    """Return a convolution of 4 to 6 channels at 5x7, channels last."""
    shapes = ((2, 4, 5, 7), (6, 4, 1, 1))
    return ConvProblem.create(direction, *shapes, **{"layout": "NHWC", **options})


def of_pixels(pitch: int) -> tuple[int, ...]:
    """Return the strides of pixels that lie so far apart."""
    return 35 * pitch, 1, 7 * pitch, pitch


@pytest.mark.parametrize(
    ("problem", "pitch"),
    [
        (problem_of(), 6),
        (problem_of(y_strides=of_pixels(6)), 6),
        (problem_of(y_strides=of_pixels(10)), 10),
        (problem_of(Direction.BACKWARD_DATA), 4),
        (problem_of(Direction.BACKWARD_DATA, x_strides=of_pixels(9)), 9),
    ],
)
def test_the_elements_from_pixel_to_pixel(problem: ConvProblem, pitch: int) -> None:
    assert result_pitch(problem) == pitch
    assert has_only_pitch(problem)


def test_what_is_read_has_a_pitch_of_its_own() -> None:
    steps = of_pixels(9)
    gapped = problem_of(x_strides=steps, y_strides=of_pixels(10))
    assert (pixel_pitch(gapped, "x"), pixel_pitch(gapped, "y")) == (9, 10)
    assert result_pitch(gapped) is None
    assert pixel_pitch(problem_of(x_strides=(steps[0] + 1, *steps[1:])), "x") is None


def test_a_result_of_one_channel_or_of_one_pixel_has_a_pitch_too() -> None:
    one_channel = ConvProblem.forward(
        (2, 3, 5, 7), (1, 3, 1, 1), layout="NHWC", y_strides=of_pixels(4)
    )
    images = ConvProblem.forward(
        (3, 4, 1, 1), (6, 4, 1, 1), layout="NHWC", y_strides=(20, 1, 20, 20)
    )
    one_pixel = ConvProblem.forward((1, 4, 1, 1), (6, 4, 1, 1), layout="NHWC")
    assert [result_pitch(one) for one in (one_channel, images, one_pixel)] == [4, 20, 6]


@pytest.mark.parametrize(
    "strides",
    [
        {"x_strides": of_pixels(9)},
        {"w_strides": (8, 1, 8, 8)},
        {"y_strides": (400, 1, 7 * 10, 10)},  # images
        {"y_strides": (5 * 80, 1, 80, 10)},  # rows
        {"y_strides": (35 * 12, 2, 7 * 12, 12)},  # channels
        {"y_strides": of_pixels(9), "x_strides": of_pixels(9)},
        {"layout": "NCHW", "y_strides": (35 * 6 + 1, 35, 7, 1)},
    ],
)
def test_other_gaps_are_refused(strides: dict[str, Any]) -> None:
    problem = problem_of(**strides)
    answer = has_only_pitch(problem)
    assert result_pitch(problem) is None
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.NON_PACKED


def test_without_gaps_tensors_are_packed() -> None:
    assert without_gaps(problem_of(y_strides=of_pixels(9))) == problem_of()
    assert without_gaps(problem_of()) == problem_of()


def test_a_pitch_that_kernels_cannot_count_is_refused() -> None:
    answer = has_only_pitch(problem_of(y_strides=of_pixels(2**30 + 1)))
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.SIZE_LIMIT
