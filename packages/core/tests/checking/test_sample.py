"""Samples: their tensors are parts of the whole ones, and so are their results."""

from __future__ import annotations

import numpy as np
import pytest

from convfind import ConvProblem
from convfind.checking.conv_operands import ConvOperands
from convfind.checking.random_data import random_data
from convfind.checking.reference import right_result
from convfind.checking.sample import Sample
from convfind.types import Direction, Layout

GROUPED = {"x": (11, 24, 17, 16), "w": (36, 2, 3, 3), "groups": 12, "padding": 1}
MANY_CHANNELS = {"x": (11, 80, 6, 5), "w": (20, 80, 1, 1)}
DENSE = {"x": (11, 6, 17, 16), "w": (4, 6, 3, 3), "stride": 2}


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("sizes", [GROUPED, DENSE, MANY_CHANNELS])
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
    is_whole = direction is Direction.BACKWARD_WEIGHTS and problem.w_shape[0] == 4
    assert (sample.problem == problem) is is_whole


@pytest.mark.parametrize("layout", [Layout.NCHW, Layout.NHWC])
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("sizes", [GROUPED, DENSE, MANY_CHANNELS])
def test_samples_of_rings_are_those_of_whole_tensors(
    sizes: dict[str, object], direction: Direction, layout: Layout
) -> None:
    fused = {"add": True} if direction is Direction.FORWARD else {}
    problem = ConvProblem.forward(**sizes, layout=layout, **fused)  # type: ignore[arg-type]
    problem = problem.with_direction(direction)
    sample = Sample.of(problem)
    rings, whole = (ConvOperands(problem, 3, "clipped") for _ in range(2))
    assert {*rings.parts} == {*problem.reads}
    for name in problem.reads:
        of = problem.direction.writes if name == "z" else name
        part = rings.sampled(sample, name, of)
        np.testing.assert_array_equal(part, sample.part(of, whole.view(name)))
        assert sample.problem.operand(of).in_memory(sample.problem.shape(of)) == part.shape
    assert not rings._made, "no tensor was made whole"


def test_samples_hold_the_first_and_the_last_and_others_each_time() -> None:
    problem = ConvProblem.forward(x=(500, 4, 34, 5), w=(4, 4, 3, 3))
    drawn = [Sample.of(problem).chosen["x"][0] for _ in range(4)]
    for images in drawn:
        assert (images[0], images[-1]) == (0, 499)
        assert len(set(images)) == len(images) == 8
    assert len({tuple(images) for images in drawn}) > 1


def test_samples_of_small_images_have_more_of_them() -> None:
    problem = ConvProblem.forward(x=(500, 4, 1, 2), w=(4, 4, 1, 1))
    assert len(set(Sample.of(problem).chosen["x"][0])) == 128
    assert not Sample.of(problem.with_batch(100)).chosen
