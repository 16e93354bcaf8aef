"""A part of a large result is compared, and a wrong part is seen."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.checking.accuracy import check_error, error_bound
from convfind.checking.random_data import random_data
from convfind.checking.reference import reference_convolution
from convfind.cli.spot_check import spot_check
from convfind.problem import ConvProblem
from convfind.types import Direction


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("limit", [0, 10**9], ids=["part", "all"])
@pytest.mark.parametrize("direction", list(Direction))
def test_a_right_result_passes_and_a_wrong_one_does_not(
    direction: Direction, limit: int, layout: str
) -> None:
    problem = ConvProblem.create(
        direction, (3, 4, 7, 6), (5, 4, 3, 2), stride=2, padding=((1, 0), (0, 1)), layout=layout
    )
    first, second = random_data(problem, seed=0)
    tensors = dict(zip(direction.reads, (first, second), strict=True))
    result = reference_convolution(problem, first, second).astype(np.float32)
    bound = error_bound(problem)
    assert check_error(spot_check(problem, tensors, result, limit), bound)
    assert not check_error(spot_check(problem, tensors, result * 1.001, limit), bound)
    everywhere = not limit
    result[(0, -1)[direction is not Direction.BACKWARD_WEIGHTS]].flat[0] += 1
    assert not check_error(spot_check(problem, tensors, result, limit), bound), everywhere


def test_a_single_result_near_zero_is_judged_by_what_it_is_a_sum_of() -> None:
    problem = ConvProblem.forward((1, 64, 1, 1), (1, 64, 1, 1))
    x, w = random_data(problem, seed=0)
    w[0, -1] -= (float(np.vdot(x, w)) - 0.01) / x[0, -1]
    right = reference_convolution(problem, x, w)
    assert abs(right.item()) < 0.02
    tensors = {"x": x, "w": w}
    for error, is_right in ((1e-6, True), (1e-3, False)):
        report = spot_check(problem, tensors, (right + error).astype(np.float32))
        assert check_error(report, error_bound(problem)) is is_right
