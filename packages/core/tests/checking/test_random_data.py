"""Random contents of tensors: their form, and whole numbers on which sums are exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings

from convfind.checking.random_data import LARGEST_WHOLE, integer_data, random_data
from convfind.checking.random_numbers import Distribution
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.problem import ConvProblem
from convfind.types import Direction

FLOATS = ["float64", "float32", "float16", "bfloat16"]
LAYER = ConvProblem.forward((2, 64, 12, 12), (32, 64, 3, 3), padding=1)


@settings(deadline=None)
@given(...)
def test_data_has_the_form_of_the_tensors(problem: ConvProblem) -> None:
    distributions: tuple[Distribution, ...] = ("uniform", "normal", "wide")
    for pair in (
        integer_data(problem, 1),
        *(random_data(problem, 1, distribution) for distribution in distributions),
    ):
        for name, tensor in zip(problem.direction.reads, pair, strict=True):
            expected = problem.tensor_layout(name).to_memory(problem.shape(name))
            assert tensor.shape == expected
            assert tensor.dtype == problem.tensor_dtype(name).numpy
            assert tensor.flags.c_contiguous
            assert np.isfinite(tensor.astype(np.float64)).all()


def test_data_depends_on_the_seed_only() -> None:
    for make in (integer_data, random_data):
        one, same, other = make(LAYER, 1), make(LAYER, 1), make(LAYER, 2)
        for first, second, third in zip(one, same, other, strict=True):
            np.testing.assert_array_equal(first, second)
            assert not np.array_equal(first, third)


def test_an_unknown_distribution_is_refused() -> None:
    with pytest.raises(ValueError, match="'gauss' is not one of uniform, normal, wide"):
        random_data(LAYER, 1, "gauss")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [*FLOATS, "int8"])
def test_wide_results_do_not_overflow(dtype: str) -> None:
    problem = ConvProblem.forward((2, 5000, 3, 3), (8, 5000, 3, 3), dtype=dtype)
    first, second = random_data(problem, 3, "wide")
    result = reference_convolution(problem, first, second).astype(problem.y_dtype.numpy)
    assert np.isfinite(result.astype(np.float64)).all()


@settings(deadline=None)
@given(...)
def test_whole_numbers_are_exact_in_the_result(problem: ConvProblem) -> None:
    assume(problem.has_default_scaling)
    check_exactness(problem)


#: Images, their channels and their size, and filters: few results of many products each.
FEW_RESULTS = {
    Direction.FORWARD: (1, 128, 6, 16),
    Direction.BACKWARD_DATA: (1, 16, 6, 256),
    Direction.BACKWARD_WEIGHTS: (8, 16, 30, 16),
}
LONG_SUMS = [*itertools.product(FLOATS, Direction), ("int8", Direction.FORWARD)]


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(("dtype", "direction"), LONG_SUMS)
def test_whole_numbers_are_exact_in_long_sums(
    dtype: str, direction: Direction, groups: int
) -> None:
    images, channels, size, filters = FEW_RESULTS[direction]
    x, w = (images, channels, size, size), (filters, channels // groups, 3, 3)
    problem = ConvProblem.create(direction, x, w, groups=groups, dtype=dtype)
    assert problem.reduction >= 256
    check_exactness(problem)
    # Not by chance: as long as zeros stay where they are, the largest values do not matter.
    first, second = integer_data(problem, 7)
    largest = [np.abs(tensor.astype(np.float64)).max() for tensor in (first, second)]
    worst = reference_magnitude(problem, np.ones(first.shape), second != 0).max()
    assert worst * largest[0] * largest[1] <= LARGEST_WHOLE[problem.y_dtype]


def check_exactness(problem: ConvProblem) -> None:
    first, second = integer_data(problem, 7)
    for tensor in (first, second):
        values = tensor.astype(np.float64)
        np.testing.assert_array_equal(values, np.rint(values))
    # The sum of absolute values bounds every partial sum, in any order.
    magnitude = reference_magnitude(problem, first, second)
    y_dtype = problem.tensor_dtype(problem.direction.writes)
    assert magnitude.max() <= LARGEST_WHOLE[y_dtype]
    result = reference_convolution(problem, first, second)
    np.testing.assert_array_equal(result.astype(y_dtype.numpy).astype(np.float64), result)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("dtype", FLOATS)
def test_whole_numbers_reach_every_element(dtype: str, direction: Direction) -> None:
    problem = ConvProblem.create(direction, (8, 64, 30, 30), (128, 64, 3, 3), dtype=dtype)
    magnitude = reference_magnitude(problem, *integer_data(problem, 8))
    assert (magnitude > 0).mean() > 0.99
