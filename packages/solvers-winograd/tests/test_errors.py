"""Stated error bounds hold for the arithmetic of every transform, in float32 against float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convfind.checking.accuracy import check_error, error_bound, measure_error
from convfind.checking.random_data import random_data
from convfind.checking.random_numbers import Distribution
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.problem import ConvProblem
from convfind_solvers_winograd.applicability import error_bound as stated_bound
from convfind_solvers_winograd.cook_toom import Matrix, Spread, Transform
from convfind_solvers_winograd.cpu import CpuSolver
from convfind_solvers_winograd.gpu import GpuSolver
from convfind_solvers_winograd.solver_list import cpu_solvers, gpu_solvers

_FILTERS = 4
#: Each transform along the axes on which it is used.
CASES = [
    pytest.param(transform, axes, id=f"{transform.name}-{axes}d")
    for transform, axes in dict.fromkeys(
        (s.transform, s.axes)
        for s in (*cpu_solvers(), *gpu_solvers())
        if isinstance(s, CpuSolver | GpuSolver)
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
    spread, r = transform.spread, transform.r
    # Data with a zero behind every value stands for a data gradient's.
    width = 2 * transform.values - 1 if spread is Spread.DATA else transform.values
    apart = 2 if spread is Spread.TAPS else 1
    height, rows = (width, r) if axes == 2 else (1, 1)
    problem = ConvProblem.forward(
        x=(512 // channels + 8, channels, height, width),
        w=(_FILTERS, channels, rows, r),
        stride=2 if spread is Spread.RESULTS else 1,
        dilation=apart,
        padding=1 if spread is Spread.DATA else 0,
    )
    d, g = random_data(problem, 3, distribution)
    values = d
    if spread is Spread.DATA:
        d[:, :, 1::2] = d[:, :, :, 1::2] = 0.0
        values = d[:, :, ::2, ::2]
    right = reference_convolution(problem, d, g)[:, :, : transform.m, : transform.m]
    # As inside of an image that goes on around the tile: whatever meets the tile's values.
    pads = (apart * (rows - 1), apart * (r - 1))
    around = reference_magnitude(replace(problem, padding=pads, padding_end=pads), d, g)
    scale = np.broadcast_to(around.max((2, 3), keepdims=True), right.shape)
    error = measure_error(_convolution(transform, axes, values, g), right, scale)
    bound = error_bound(problem, stated_bound(transform, problem, axes))
    assert check_error(error, bound), f"{error} over {bound}"
    # A bound that is never approached would say nothing.
    assert error.rms_error > 0.01 * bound.rms_error
