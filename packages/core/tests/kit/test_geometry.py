"""A geometry has the numbers of a problem, from the tensor that is read to the one computed."""

from __future__ import annotations

import pytest

from convfind.kit.geometry import Geometry, per_axis
from convfind.problem import ConvProblem
from convfind.types import Direction

PROBLEM = ConvProblem.forward(
    (2, 6, 9, 11), (8, 3, 3, 5), groups=2, stride=(1, 2), dilation=(2, 1), padding=(2, 1)
)


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_WEIGHTS])
def test_forward_goes_from_x_to_y(direction: Direction) -> None:
    shape = Geometry.of(PROBLEM.with_direction(direction), 2)
    assert (shape.is_gradient, shape.source, shape.result) == (False, "x", "y")
    assert (shape.images, shape.groups, shape.channels, shape.filters) == (2, 2, 3, 4)
    assert (shape.size, shape.out) == ((9, 11), (9, 5))
    assert (shape.window, shape.taps) == ((3, 5), 15)
    assert (shape.stride, shape.dilation, shape.padding) == ((1, 2), (2, 1), (2, 1))


def test_a_data_gradient_goes_from_y_to_x_by_the_same_steps() -> None:
    forward = Geometry.of(PROBLEM, 2)
    shape = Geometry.of(PROBLEM.with_direction(Direction.BACKWARD_DATA), 2)
    assert (shape.is_gradient, shape.source, shape.result) == (True, "y", "x")
    assert (shape.channels, shape.filters) == (forward.filters, forward.channels)
    assert (shape.size, shape.out) == (forward.out, forward.size)
    assert (shape.window, shape.stride) == (forward.window, forward.stride)
    assert (shape.dilation, shape.padding) == (forward.dilation, forward.padding)


def test_axes_that_a_problem_lacks_come_first() -> None:
    line = ConvProblem.forward((1, 2, 10), (3, 2, 4), stride=3, padding=1)
    shape = Geometry.of(line)
    assert (shape.size, shape.window, shape.out) == ((1, 1, 10), (1, 1, 4), (1, 1, 3))
    assert (shape.stride, shape.dilation, shape.padding) == ((1, 1, 3), (1, 1, 1), (0, 0, 1))


def test_one_tap_is_not_dilated() -> None:
    problem = ConvProblem.forward((1, 1, 9, 9), (1, 1, 1, 3), dilation=4)
    assert Geometry.of(problem, 2).dilation == (1, 4)


def test_sizes_have_a_name_for_each_axis() -> None:
    assert per_axis(STRIDE=(1, 2), PAD=(3, 4)) == {
        **{"STRIDE_H": 1, "STRIDE_W": 2},
        **{"PAD_H": 3, "PAD_W": 4},
    }
    assert list(per_axis(OUT=(5, 6, 7)).items()) == [("OUT_D", 5), ("OUT_H", 6), ("OUT_W", 7)]
