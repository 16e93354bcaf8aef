"""Samples: their tensors are parts of the whole ones, and so are their results."""

from __future__ import annotations

import numpy as np
import pytest

from convfind import ConvProblem
from convfind.checking.random_data import random_data
from convfind.checking.reference import right_result
from convfind.checking.sample import Sample
from convfind.types import Direction, Layout

GROUPED = {"x": (11, 24, 17, 16), "w": (36, 2, 3, 3), "groups": 12, "padding": 1}
DENSE = {"x": (11, 6, 17, 16), "w": (4, 6, 3, 3), "stride": 2}


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("sizes", [GROUPED, DENSE])
def test_results_of_a_sample_are_parts_of_the_result(
    sizes: dict[str, object], direction: Direction, layout: Layout
) -> None:
    problem = ConvProblem.forward(**sizes, layout=layout).with_direction(direction)  # type: ignore[arg-type]
    first, second = random_data(problem, 3)
    (one, other), writes = direction.reads, direction.writes
    whole = right_result(problem, first, second).result
    sample = Sample.of(problem)
    parts = sample.part(one, first), sample.part(other, second)
    expected = right_result(sample.problem, *parts).result
    np.testing.assert_allclose(sample.part(writes, whole), expected, rtol=1e-6, atol=1e-6)
    is_whole = direction is Direction.BACKWARD_WEIGHTS and problem.groups == 1
    assert (sample.problem == problem) is is_whole


def test_samples_hold_the_first_and_the_last_and_others_each_time() -> None:
    problem = ConvProblem.forward(x=(500, 4, 34, 5), w=(4, 4, 3, 3))
    drawn = [Sample.of(problem).images for _ in range(4)]
    for images in drawn:
        assert images is not None
        assert (images[0], images[-1]) == (0, 499)
        assert len(set(images)) == len(images) == 8
    assert len({tuple(images) for images in drawn if images is not None}) > 1


def test_samples_of_small_images_have_more_of_them() -> None:
    problem = ConvProblem.forward(x=(500, 4, 1, 2), w=(4, 4, 1, 1))
    images = Sample.of(problem).images
    assert images is not None
    assert len(set(images)) == 128
    assert Sample.of(problem.with_batch(100)).images is None
