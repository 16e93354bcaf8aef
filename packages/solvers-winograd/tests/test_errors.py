"""Stated error bounds hold for the arithmetic of every transform, in float32 against float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from convfind_solvers_winograd.applicability import error_bound as stated_bound
from convfind_solvers_winograd.cook_toom import Matrix, Transform
from convfind_solvers_winograd.cpu import CpuSolver
from convfind_solvers_winograd.solver_list import cpu_solvers

_FILTERS = 4
#: Each transform along the axes on which it is used.
CASES = [
    pytest.param(transform, axes, id=f"F{transform.m}x{transform.r}-{axes}d")
    for transform, axes in dict.fromkeys(
        (s.transform, s.axes) for s in cpu_solvers() if isinstance(s, CpuSolver)
    )
]


def _along(axes: int, matrix: Matrix, tensor: Any) -> Any:
    rounded = np.array([[float(value) for value in row] for row in matrix], np.float32)
    columns = tensor @ rounded.T
    return (rounded @ columns if axes == 2 else columns).astype(np.float32)


def _convolution(transform: Transform, axes: int, d: Any, g: Any) -> Any:
    """Images of one tile each by windows, channel after channel, as the kernels compute them."""
    v, u = _along(axes, transform.data, d), _along(axes, transform.filter, g)
    products = np.zeros((len(d), len(g), *v.shape[2:]), np.float32)
    for c in range(d.shape[1]):
        products += v[:, None, c] * u[None, :, c]
    return _along(axes, transform.result, products)


@pytest.mark.parametrize(
    ("distribution", "channels"),
    [("uniform", 2048), ("normal", 64), ("wide", 1), ("wide", 64)],
)
@pytest.mark.parametrize(("transform", "axes"), CASES)
def test_errors_stay_in_the_bound(
    transform: Transform, axes: int, distribution: Distribution, channels: int
) -> None:
    n, r = transform.n, transform.r
    height, rows = (n, r) if axes == 2 else (1, 1)
    images = 512 // channels + 8
    problem = ConvProblem.forward(x=(images, channels, height, n), w=(_FILTERS, channels, rows, r))
    d, g = random_data(problem, 3, distribution)
    right = reference_convolution(problem, d, g)
    # As inside of an image that goes on around the tile: whatever meets the tile's values.
    pads = (rows - 1, r - 1)
    around = reference_magnitude(replace(problem, padding=pads, padding_end=pads), d, g)
    scale = np.broadcast_to(around.max((2, 3), keepdims=True), right.shape)
    error = measure_error(_convolution(transform, axes, d, g), right, scale)
    bound = error_bound(problem, stated_bound(transform, problem, axes))
    assert check_error(error, bound), f"{error} over {bound}"
    # A bound that is never approached would say nothing.
    assert error.rms_error > 0.01 * bound.rms_error
