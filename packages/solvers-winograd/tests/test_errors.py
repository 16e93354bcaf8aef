"""Stated error bounds hold for the arithmetic of every transform, in float32 against float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from convfind.accuracy import (
    Distribution,
    check_error,
    error_bound,
    measure_error,
    random_data,
)
from convfind.problem import ConvProblem
from convfind.reference import reference_convolution, reference_magnitude
from convfind_solvers_winograd.algorithms import TRANSFORMS
from convfind_solvers_winograd.applicability import error_bound as stated_bound
from convfind_solvers_winograd.cook_toom import Matrix, Transform

_FILTERS = 4


def _both_axes(matrix: Matrix, tensor: Any) -> Any:
    rounded = np.array([[float(value) for value in row] for row in matrix], np.float32)
    return (rounded @ tensor @ rounded.T).astype(np.float32)


def _convolution(transform: Transform, d: Any, g: Any) -> Any:
    """Images of one tile each by windows, channel after channel, as the kernels compute them."""
    v, u = _both_axes(transform.data, d), _both_axes(transform.filter, g)
    products = np.zeros((len(d), len(g), *v.shape[2:]), np.float32)
    for c in range(d.shape[1]):
        products += v[:, None, c] * u[None, :, c]
    return _both_axes(transform.result, products)


@pytest.mark.parametrize("channels", [1, 64, 2048])
@pytest.mark.parametrize("distribution", get_args(Distribution))
@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: f"F{t.m}x{t.r}")
def test_errors_stay_in_the_bound(
    transform: Transform, distribution: Distribution, channels: int
) -> None:
    n, r = transform.n, transform.r
    images = 512 // channels + 16
    problem = ConvProblem.forward(x=(images, channels, n, n), w=(_FILTERS, channels, r, r))
    d, g = random_data(problem, 3, distribution)
    right = reference_convolution(problem, d, g)
    # As inside of an image that goes on around the tile: whatever meets the tile's values.
    around = reference_magnitude(replace(problem, padding=(r - 1, r - 1)), d, g)
    scale = np.broadcast_to(around.max((2, 3), keepdims=True), right.shape)
    error = measure_error(_convolution(transform, d, g), right, scale)
    bound = error_bound(problem, stated_bound(transform, problem))
    assert check_error(error, bound), f"{error} over {bound}"
    # A bound that is never approached would say nothing.
    assert error.rms_error > 0.01 * bound.rms_error
