"""Measures and bounds of error."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.checking.accuracy import (
    INFINITE_ERROR,
    ErrorReport,
    check_error,
    error_bound,
    largest_factor,
    measure_error,
    spread_magnitude,
)
from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.problem import ConvProblem
from convfind.types import DataType

Array = np.ndarray[Any, Any]
FLOATS = ["float64", "float32", "float16", "bfloat16"]


# -- measure_error ------------------------------------------------------------------------------


def test_equal_arrays_have_no_error() -> None:
    values = np.array([1.0, -2.0, 0.0])
    assert measure_error(values, values, np.abs(values)) == ErrorReport(0.0, 0.0)
    assert measure_error(np.zeros(3), np.zeros(3)) == ErrorReport(0.0, 0.0)


def test_max_error_is_relative_to_the_magnitude_of_the_element() -> None:
    right, magnitude = np.array([100.0, 1.0]), np.array([400.0, 2.0])
    report = measure_error(np.array([101.0, 1.5]), right, magnitude)
    assert report.max_error == 0.25
    assert report.rms_error == pytest.approx(math.hypot(1, 0.5) / math.hypot(100, 1))


def test_max_error_without_magnitude_is_relative_to_the_largest() -> None:
    assert measure_error(np.array([100.0, 2.0]), np.array([100.0, 1.0])).max_error == 0.01


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_an_infinite_error(wrong: float) -> None:
    assert measure_error(np.array([1.0, wrong]), np.ones(2), np.ones(2)) == INFINITE_ERROR


def test_another_shape_is_an_infinite_error() -> None:
    assert measure_error(np.ones((2, 3)), np.ones((3, 2))) == INFINITE_ERROR
    assert measure_error(np.ones(1), np.ones(3)) == INFINITE_ERROR


def test_an_element_that_must_be_zero_has_no_tolerance() -> None:
    report = measure_error(np.array([1e-9, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert report.max_error == math.inf
    assert measure_error(np.array([1e-9]), np.zeros(1)) == INFINITE_ERROR


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_subnormal_step_is_no_error(dtype: str) -> None:
    step = 2.0**-24 if dtype == "float16" else 2.0**-133
    got = np.array([step, 1.0]).astype(DataType(dtype).numpy)
    assert measure_error(got, np.array([step / 2, 1.0]), np.array([step, 1.0])).max_error == 0.0
    assert measure_error(got, np.array([-step, 1.0]), np.array([step, 1.0])).max_error == 2.0


def test_whole_numbers_have_no_subnormal_step() -> None:
    report = measure_error(np.array([2**20 + 1], np.int32), np.array([2**20], np.int32))
    assert report.max_error == 2.0**-20


# -- error_bound --------------------------------------------------------------------------------


def layer(direction: str = "forward", **options: Any) -> ConvProblem:
    return ConvProblem.create(
        direction, (2, 64, 12, 12), (32, 64, 3, 3), **{"padding": 1, **options}
    )


def test_bound_of_a_float32_layer() -> None:
    roundings = 64 * 9 + 3
    bound = error_bound(layer())
    assert bound.max_error == pytest.approx((5 * roundings**0.5 + 1) * 2**-24, rel=1e-6)
    assert bound.rms_error == pytest.approx((roundings**0.5 + 1) * 2**-24, rel=2e-3)


def test_short_sums_have_the_deterministic_bound() -> None:
    bound = error_bound(ConvProblem.forward((1, 4, 5, 5), (4, 4, 1, 1)))
    assert bound.max_error == pytest.approx((4 + 3 + 1) * 2**-24, rel=1e-6)


def test_narrow_results_are_rounded_once() -> None:
    assert error_bound(layer(dtype="float16")).max_error == pytest.approx(2**-11, rel=0.02)
    assert error_bound(layer(dtype="bfloat16")).max_error == pytest.approx(2**-8, rel=0.002)


def test_the_factor_widens_what_an_algorithm_adds_itself() -> None:
    once, tenfold = error_bound(layer(dtype="float16")), error_bound(layer(dtype="float16"), 10)
    assert tenfold.max_error - 2**-11 == pytest.approx(10 * (once.max_error - 2**-11), rel=1e-6)
    assert error_bound(layer(), 3.0).rms_error > 2.5 * error_bound(layer()).rms_error


def test_tf32_widens_only_float32() -> None:
    assert error_bound(layer(allow_tf32=True)).max_error > 2**-10
    for dtype in ("float64", "float16", "bfloat16"):
        assert error_bound(layer(dtype=dtype, allow_tf32=True)) == error_bound(layer(dtype=dtype))


def test_int8_is_exact() -> None:
    assert error_bound(layer(dtype="int8")) == ErrorReport(0.0, 0.0)
    assert error_bound(layer(dtype="int8", y_dtype="float32")).max_error == 2.0**-24
    assert error_bound(layer(dtype="int8", alpha=3)).max_error == 3 * 2.0**-24


def test_check_error_wants_both_within_the_bound() -> None:
    bound = ErrorReport(1e-3, 1e-4)
    assert check_error(ErrorReport(1e-3, 1e-4), bound)
    assert not check_error(ErrorReport(1.1e-3, 0.0), bound)
    assert not check_error(ErrorReport(0.0, 1.1e-4), bound)
    assert not check_error(INFINITE_ERROR, bound)
    assert not check_error(ErrorReport(math.nan, 0.0), bound)


def sequential(problem: ConvProblem, first: Array, second: Array) -> Array:
    """Compute a pointwise or full-filter problem in the most error-prone way: one running sum."""
    wide: Any = np.float64 if problem.dtype is DataType.FLOAT64 else np.float32
    data = first.reshape(first.shape[0], -1).astype(wide)
    weights = second.reshape(second.shape[0], -1).astype(wide)
    total: Array = np.zeros((data.shape[0], weights.shape[0]), wide)
    for index in range(data.shape[1]):
        total += data[:, index, None] * weights[None, :, index]
    return total.astype(problem.y_dtype.numpy).reshape(problem.y_shape)


@pytest.mark.parametrize("distribution", ["uniform", "normal", "wide", "positive"])
@pytest.mark.parametrize("channels", [1, 7, 300, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_plain_summation_is_within_the_bound_and_near_it(
    dtype: str, channels: int, distribution: Any
) -> None:
    problem = ConvProblem.forward((60, channels, 2), (50, channels, 2), dtype=dtype)
    if distribution == "positive":
        first, second = (np.abs(values) for values in random_data(problem, 5))
        second = second / second.dtype.type(8)  # keeps 10,000 products below the largest float16
    else:
        first, second = random_data(problem, 5, distribution)
    result = sequential(problem, first, second)
    reference = reference_convolution(problem, first, second)
    magnitude = reference_magnitude(problem, first, second)
    report, bound = measure_error(result, reference, magnitude), error_bound(problem)
    assert check_error(report, bound)
    assert check_error(measure_error(result, reference), bound)
    # A bound that nothing comes near would let wrong results pass.
    assert bound.rms_error < 40 * report.rms_error


def test_inputs_rounded_to_tf32_are_within_its_bound_only() -> None:
    problem = ConvProblem.forward((60, 300, 2), (50, 300, 2), allow_tf32=True)
    first, second = random_data(problem, 5)
    rounded = [
        (values.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32)
        for values in (first, second)
    ]
    result = sequential(problem, *rounded)
    reference = reference_convolution(problem, first, second)
    report = measure_error(result, reference, reference_magnitude(problem, first, second))
    assert check_error(report, error_bound(problem))
    assert not check_error(report, error_bound(replace(problem, allow_tf32=False)))


def test_few_results_that_are_nearly_zero_are_no_error() -> None:
    for results in (1, 2, 4, 8):
        problem = ConvProblem.forward((results, 500, 1), (1, 500, 1))
        for seed in range(200):
            first, second = random_data(problem, seed)
            result = sequential(problem, first, second)
            reference = reference_convolution(problem, first, second)
            magnitude = reference_magnitude(problem, first, second)
            report = measure_error(result, reference, magnitude)
            assert check_error(report, error_bound(problem)), (results, seed)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_single_missing_product_is_seen(dtype: str) -> None:
    problem = ConvProblem.forward((4, 8, 20), (8, 8, 3), dtype=dtype)
    first, second = random_data(problem, 6)
    right = reference_convolution(problem, first, second)
    magnitude = reference_magnitude(problem, first, second)
    product = float(first[3, 7, 19]) * float(second[7, 7, 2])
    wrong = right.copy()
    wrong[3, 7, 17] -= product
    assert check_error(measure_error(right, right, magnitude), error_bound(problem))
    assert not check_error(measure_error(wrong, right, magnitude), error_bound(problem))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("reach", [0, 1, 3, 99])
def test_magnitudes_spread_along_spatial_axes_only(reach: int, channels_last: bool) -> None:
    magnitude = np.random.default_rng(0).random((2, 3, 5, 7))
    expected = np.empty_like(magnitude)
    for row, column in itertools.product(range(5), range(7)):
        window = magnitude[
            ..., max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1
        ]
        expected[..., row, column] = window.max(axis=(2, 3))
    if channels_last:
        magnitude, expected = (np.moveaxis(tensor, 1, -1) for tensor in (magnitude, expected))
    spread = spread_magnitude(magnitude, reach, channels_last=channels_last)
    np.testing.assert_array_equal(spread, expected)


def test_a_reference_of_the_results_type_is_rounded_too() -> None:
    """Both sides of where rounding turns: one step apart, and both as right as the type allows."""
    problem = ConvProblem.forward((1, 1, 8, 8), (1, 1, 1, 1), dtype="float16")
    reference = np.ones(problem.y_shape, np.float16)
    result = reference.copy()
    result[0, 0, 0, 0] = np.nextafter(np.float16(1), np.float16(2))
    report = measure_error(result, reference)
    assert not check_error(report, error_bound(problem))
    assert check_error(report, error_bound(problem, result_roundings=2))


# -- what solvers may allow themselves ------------------------------------------------------------


def test_the_largest_factor_leaves_room_where_sums_are_short_or_types_narrow() -> None:
    short = ConvProblem.forward((1, 1, 9, 9), (1, 1, 3, 3))
    long = ConvProblem.forward((1, 512, 9, 9), (8, 512, 3, 3))
    assert largest_factor(short) > 100 > largest_factor(long) > 32
    half = replace(long, dtype=DataType.FLOAT16, y_dtype=DataType.FLOAT16)
    assert largest_factor(half) > 100


def test_a_bound_of_the_largest_factor_still_tells_right_from_wrong() -> None:
    for channels in (1, 16, 256, 4096):
        for dtype in (DataType.FLOAT32, DataType.FLOAT64, DataType.FLOAT16):
            shape = ConvProblem.forward((1, channels, 32, 32), (64, channels, 3, 3), dtype=dtype)
            assert error_bound(shape, largest_factor(shape)).rms_error < 0.02
