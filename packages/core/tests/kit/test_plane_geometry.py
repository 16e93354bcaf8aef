"""A plane geometry is the convolution that it stands for, computed here by its numbers alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from convfind.checking.random_data import integer_data
from convfind.checking.reference import reference_convolution
from convfind.kit.plane_geometry import PlaneGeometry, plane_geometry
from convfind.problem import ConvProblem
from convfind.types import Direction, Layout

Array = np.ndarray[Any, Any]


def computed(shape: PlaneGeometry, source: Array, weights: Array) -> Array:
    """Sum products of a source in N, C, H, W order and of weights as they lie in memory."""
    by_group, by_filter, by_channel, by_tap = shape.weight_steps
    (rows, columns), (down, right), (above, left) = shape.window, shape.dilation, shape.padding
    result = np.zeros((shape.images, shape.groups * shape.filters, *shape.out))
    places = itertools.product(*map(range, (shape.groups, shape.filters, shape.channels)))
    for group, filter_, channel in places:
        image = source[:, group * shape.channels + channel]
        for row, column in itertools.product(range(rows), range(columns)):
            tap = row * columns + column
            tap = rows * columns - 1 - tap if shape.flipped else tap
            steps = group * by_group + filter_ * by_filter + channel * by_channel
            weight = weights[steps + tap * by_tap]
            for y, x in itertools.product(*map(range, shape.out)):
                i, j = y + row * down - above, x + column * right - left
                if 0 <= i < shape.size[0] and 0 <= j < shape.size[1]:
                    result[:, group * shape.filters + filter_, y, x] += weight * image[:, i, j]
    return result


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
@pytest.mark.parametrize(
    ("padding", "dilation"), [(0, 1), (((1, 0), (2, 1)), 1), ((2, 1), (2, 1)), (3, 1)]
)
def test_the_numbers_give_the_convolution(
    direction: Direction, layout: Layout, padding: Any, dilation: Any
) -> None:
    problem = ConvProblem.create(
        *(direction, (2, 4, 6, 7), (6, 2, 2, 3)),
        **{"groups": 2, "padding": padding, "dilation": dilation, "layout": layout},
    )
    shape = plane_geometry(problem)
    assert (shape.source, shape.result) == (problem.direction.reads[0], problem.direction.writes)
    source, weights = integer_data(problem, 3)
    expected = reference_convolution(problem, source, weights)
    if layout.channels_last:
        source, expected = np.moveaxis(source, -1, 1), np.moveaxis(expected, -1, 1)
    np.testing.assert_array_equal(computed(shape, source, weights.ravel()), expected)


def test_a_weight_gradient_has_data_and_gradient_where_forward_has_them() -> None:
    forward = ConvProblem.forward((2, 4, 6, 7), (6, 2, 2, 3), groups=2, padding=1)
    gradient = forward.with_direction(Direction.BACKWARD_WEIGHTS)
    assert plane_geometry(gradient) == plane_geometry(forward)
