"""Sums of channels with random signs: right results have the right ones, wrong ones do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.checking.accuracy import error_bound
from convfind.checking.checksum import Checksum
from convfind.checking.random_data import integer_data, random_data
from convfind.checking.reference import reference_convolution
from convfind.problem import ConvProblem
from convfind.runtime.tensors import empty_memory, tensor_view
from convfind.testing.shapes import edge_cases, variants
from convfind.types import DataType, Direction

Array = np.ndarray[Any, Any]

PLAIN = ConvProblem.forward((3, 6, 9, 8), (8, 3, 3, 2), padding=(2, 1), stride=(2, 1), groups=2)


def before(problem: ConvProblem) -> Array:
    """Small whole numbers where the result will be."""
    writes = problem.direction.writes
    view = tensor_view(problem, writes, empty_memory(problem, writes))
    view[...] = np.random.default_rng(0).integers(-2, 3, view.shape)
    return view


def result_of(problem: ConvProblem, reads: tuple[Array, Array]) -> tuple[Checksum, Array]:
    """The checksum, and the right result in its own type."""
    old = before(problem)
    right = reference_convolution(problem, *reads, old)
    dtype = problem.tensor_dtype(problem.direction.writes).numpy
    return Checksum(problem, *reads, old, 1), right.astype(dtype)


@pytest.mark.parametrize("case", edge_cases()[::3], ids=str)
def test_right_results_of_every_kind_pass(case: ConvProblem) -> None:
    for problem in {variant.plain() for variant in variants(case)}:
        checksum, right = result_of(problem, random_data(problem, 2, "clipped"))
        error = checksum.error_of(right)
        assert checksum.allows(error, error_bound(problem)), (problem.key, error)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_sums_of_whole_numbers_are_exact(direction: Direction, layout: str, groups: int) -> None:
    forward = ConvProblem.forward(
        (3, 6, 9, 8), (12, 6 // groups, 3, 2), padding=(2, 1), stride=(2, 1), groups=groups,
        layout=layout,
    )  # fmt: skip
    problem = replace(forward.with_direction(direction), alpha=2.0, beta=-1.0)
    checksum, right = result_of(problem, integer_data(problem, 3))
    assert checksum.error_of(right).max_error == 0.0


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_one_wrong_element_is_seen(direction: Direction, dtype: str) -> None:
    problem = replace(
        PLAIN.with_direction(direction), dtype=DataType(dtype), y_dtype=DataType(dtype)
    )
    checksum, right = result_of(problem, random_data(problem, 4))
    for place in range(0, right.size, max(1, right.size // 20)):
        wrong = right.copy()
        wrong.reshape(-1)[place] += wrong.dtype.type(0.5)
        assert not checksum.allows(checksum.error_of(wrong), error_bound(problem)), place


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_seen(value: float) -> None:
    checksum, right = result_of(PLAIN, random_data(PLAIN, 4))
    right.reshape(-1)[7] = value
    assert not checksum.allows(checksum.error_of(right), error_bound(PLAIN))


def test_two_errors_that_cancel_are_seen_under_some_signs() -> None:
    reads, old = random_data(PLAIN, 5), before(PLAIN)
    wrong = reference_convolution(PLAIN, *reads, old).astype(np.float32)
    wrong[0, 0, 0, 0] += 1
    wrong[0, 1, 0, 0] -= 1
    seen = 0
    for seed in range(20):
        checksum = Checksum(PLAIN, *reads, old, seed)
        seen += not checksum.allows(checksum.error_of(wrong), error_bound(PLAIN))
    assert 3 <= seen <= 17


def test_int8_sums_are_compared_exactly() -> None:
    problem = replace(
        ConvProblem.forward((2, 8, 5, 5), (4, 8, 3, 3)), dtype=DataType.INT8, y_dtype=DataType.INT32
    )
    checksum, right = result_of(problem, random_data(problem, 6))
    assert checksum.allows(checksum.error_of(right), error_bound(problem))
    right[0, 0, 0, 0] += 1
    assert not checksum.allows(checksum.error_of(right), error_bound(problem))


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD_DATA])
def test_filters_may_add_up_to_nearly_nothing(direction: Direction) -> None:
    forward = ConvProblem.forward((4, 1, 12, 12), (4, 1, 1, 1))
    if direction is Direction.BACKWARD_DATA:
        forward = ConvProblem.forward((4, 4, 12, 12), (1, 4, 1, 1))
    problem = forward.with_direction(direction)
    signs = np.random.default_rng(1).choice(np.array([-1.0, 1.0]), 4)
    first, _ = random_data(problem, 8)
    w = (signs * [0.7, -0.9, 0.6, -0.4 + 1e-3]).astype(np.float32).reshape(problem.w_shape)
    checksum, right = result_of(problem, (first, w))
    assert checksum.allows(checksum.error_of(right), error_bound(problem))
    right[0, 0, 0, 0] += 0.5
    assert not checksum.allows(checksum.error_of(right), error_bound(problem))
