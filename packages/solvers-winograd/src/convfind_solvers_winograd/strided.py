"""Filters of three taps and stride 2, and their gradients, from Winograd's filters of two taps.

Every second value of data meets the first and the last tap, which F(m, 2) does in m + 1
products for m results; those between meet the middle tap alone, in a product each. This makes
2 m + 1 products along an axis, where the direct formula has 3 m.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from convfind_solvers_winograd.cook_toom import Matrix, Row, Spread, Transform

_ZERO, _ONE = Fraction(0), Fraction(1)


def strided(phase: Transform) -> Transform:
    """Return m results of y_i = sum over k of g_k d_(2 i + k) from F(m, 2)."""
    m, size = phase.m, 2 * phase.n - 1
    return Transform(
        *(m, 3, phase.points),
        result=tuple((*row, *unit) for row, unit in zip(phase.result, _units(m), strict=True)),
        filter=_taps(phase),
        data=(*_at(0, phase.data, size), *_at(1, _units(m), size)),
        spread=Spread.RESULTS,
    )


def strided_data_gradient(phase: Transform) -> Transform:
    """Return 2 m results of y_i = sum over k of g_k D_(i + k - 1) from F(m, 2).

    D is d with a zero behind every value.
    """
    m = phase.m
    none = (_ZERO,) * phase.n
    singles = ((*none, *unit) for unit in _units(m))
    pairs = ((*row, *(_ZERO,) * m) for row in phase.result)
    return Transform(
        *(2 * m, 3, phase.points),
        result=tuple(row for both in zip(singles, pairs, strict=True) for row in both),
        filter=_taps(phase),
        data=(*phase.data, *_units(phase.n)[:m]),
        spread=Spread.DATA,
    )


def strided_weight_gradient(phase: Transform) -> Transform:
    """Return three results of y_i = sum over k of g_k d_(i + 2 k) from F(2, r)."""
    r, size = phase.r, 2 * phase.n - 1
    first, last = ((*row, *(_ZERO,) * r) for row in phase.result)
    return Transform(
        *(3, r, phase.points),
        result=(first, (*(_ZERO,) * phase.n, *(_ONE,) * r), last),
        filter=(*phase.filter, *_units(r)),
        data=(*_at(0, phase.data, size), *_at(1, _units(r), size)),
        spread=Spread.TAPS,
    )


def _taps(phase: Transform) -> Matrix:
    return (
        *((first, _ZERO, last) for first, last in phase.filter),
        *((_ZERO, _ONE, _ZERO) for _ in range(phase.m)),
    )


def _units(size: int) -> Matrix:
    return tuple(tuple(_ONE if i == j else _ZERO for j in range(size)) for i in range(size))


def _at(first: int, rows: Sequence[Row], size: int) -> Matrix:
    """Put the elements of rows in every second of ``size`` places."""
    spread = [[_ZERO] * size for _ in rows]
    for to, row in zip(spread, rows, strict=True):
        to[first : first + 2 * len(row) : 2] = row
    return tuple(map(tuple, spread))
