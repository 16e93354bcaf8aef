"""The transforms are exact filters, and errors grow as stated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convfind_solvers_winograd.algorithms import STRIDED, TRANSFORMS
from convfind_solvers_winograd.applicability import error_factor
from convfind_solvers_winograd.cook_toom import Matrix, Spread, Transform, cook_toom

each_transform = pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.name)
points = st.lists(st.fractions(-3, 3, max_denominator=8), min_size=2, max_size=8, unique=True)


def _times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@given(points, st.data())
def test_any_points_give_an_exact_filter(values: list[Fraction], data: st.DataObject) -> None:
    n = len(values) + 1
    m = data.draw(st.integers(1, n - 1))
    transform = cook_toom(m, n + 1 - m, values)
    whole = st.integers(-9, 9).map(Fraction)
    d = data.draw(st.lists(whole, min_size=n, max_size=n))
    g = data.draw(st.lists(whole, min_size=transform.r, max_size=transform.r))
    products = [
        u * v for u, v in zip(_times(transform.filter, g), _times(transform.data, d), strict=True)
    ]
    expected = [sum(d[i + k] * g[k] for k in range(transform.r)) for i in range(m)]
    assert _times(transform.result, products) == expected


@pytest.mark.parametrize("transform", STRIDED, ids=lambda t: t.name)
@given(st.data())
def test_filters_of_stride_2_are_exact(transform: Transform, data: st.DataObject) -> None:
    whole = st.integers(-9, 9).map(Fraction)
    d = data.draw(st.lists(whole, min_size=transform.values, max_size=transform.values))
    g = data.draw(st.lists(whole, min_size=transform.r, max_size=transform.r))
    products = [
        u * v for u, v in zip(_times(transform.filter, g), _times(transform.data, d), strict=True)
    ]
    spread = transform.spread
    if spread is Spread.DATA:
        d = [Fraction(0), *(value for each in d for value in (each, Fraction(0)))]
    step, apart = 1 + (spread is Spread.RESULTS), 1 + (spread is Spread.TAPS)
    expected = [
        sum(d[step * i + apart * k] * g[k] for k in range(transform.r)) for i in range(transform.m)
    ]
    assert _times(transform.result, products) == expected


def test_points_must_be_different_and_enough() -> None:
    with pytest.raises(ValueError, match="needs 3 different points"):
        cook_toom(2, 3, (0, 1, 1))
    with pytest.raises(ValueError, match="needs 4 different points"):
        cook_toom(3, 3, (0, 1, -1))


def _floats(matrix: Matrix) -> Any:
    return np.array([[float(value) for value in row] for row in matrix])


def _relative_error(transform: Transform, channels: int) -> float:
    """RMS error of float32 sums of transformed random data, relative to that of plain sums."""
    generator = np.random.default_rng(0)
    size, n, r, m = transform.values, transform.n, transform.r, transform.m
    d = generator.uniform(-1, 1, (300, channels, size, size)).astype(np.float32)
    g = generator.uniform(-1, 1, (300, channels, r, r)).astype(np.float32)

    def transformed(matrix: Matrix, tensor: Any) -> Any:
        both = _floats(matrix).astype(np.float32)
        return (both @ tensor @ both.T).astype(np.float32)

    # taken[i, k, l]: whether tap k meets value l in result i.
    taken = np.einsum(
        "ij,jk,jl->ikl", *map(_floats, (transform.result, transform.filter, transform.data))
    )
    taken = np.round(taken).astype(np.float32)
    u, v = transformed(transform.filter, g), transformed(transform.data, d)
    sums = np.zeros((300, n, n), np.float32)
    plain = np.zeros((300, m, m), np.float32)
    right = np.zeros((300, m, m))
    for c in range(channels):
        sums += u[:, c] * v[:, c]
        for i in range(r):
            for j in range(r):
                window, weight = taken[:, i] @ d[:, c] @ taken[:, j].T, g[:, c, i, j, None, None]
                plain += window * weight
                right += window.astype(np.float64) * weight
    result = transformed(transform.result, sums)
    return float(np.linalg.norm(result - right) / np.linalg.norm(plain - right))


@each_transform
def test_errors_grow_as_predicted(transform: Transform) -> None:
    growth = transform.growth**2 / transform.r
    assert 0.3 * growth < _relative_error(transform, 64) < error_factor(transform)


@pytest.mark.parametrize("taps", [5, 7])
def test_smaller_tiles_of_long_filters_would_multiply_more(taps: int) -> None:
    """And the accuracy of those in use is good enough by default: nothing is left to F(2, taps)."""
    chosen = next(t for t in TRANSFORMS if (t.m, t.r) == (4, taps))
    assert error_factor(chosen, 2 if taps == 5 else 1) < 10.0
    for size in range(chosen.m // 2 + 1, 100):
        tiles, smaller = -(-size // chosen.m), -(-size // 2)
        assert tiles * chosen.n < smaller * (2 + taps - 1)


def test_the_points_of_f4x3_halve_the_error_of_the_customary_ones() -> None:
    customary = cook_toom(4, 3, (0, 1, -1, 2, -2))
    chosen = next(t for t in TRANSFORMS if t.m == 4)
    assert _relative_error(chosen, 64) < 0.5 * _relative_error(customary, 64)
