"""Winograd's minimal filtering F(m, r) as three exact matrices, by the method of Cook and Toom.

A result of m values and a filter of r taps read n = m + r - 1 values of data:

    y = A^T ((G g) * (B^T d))        y_i = sum over k of g_k d_(i + k)

Both polynomials are evaluated in n - 1 chosen points and in infinity, multiplied there, and the
product is interpolated; transposing that turns a product of polynomials into a filter. Matrices are
named as in A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015). In two
dimensions the transforms are applied along both axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import prod, sqrt

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]


class Spread(StrEnum):
    """Values two places apart: ``strided.py`` says how they make filters of stride 2."""

    NONE = ""
    RESULTS = "s2"
    DATA = "up2"
    TAPS = "d2"


@dataclass(frozen=True)
class Transform:
    """F(m, r): ``result`` is A^T (m x n), ``filter`` G (n x r), ``data`` B^T (n x values)."""

    m: int
    r: int
    points: tuple[Fraction, ...]  # without infinity
    result: Matrix
    filter: Matrix
    data: Matrix
    spread: Spread = Spread.NONE

    @property
    def name(self) -> str:
        """The name of the generated files."""
        return f"f{self.m}x{self.r}{self.spread}"

    @property
    def n(self) -> int:
        """Products of one tile along one axis."""
        return len(self.filter)

    @property
    def values(self) -> int:
        """Values of data behind one tile along one axis; those of stride 1 are as many as n."""
        return len(self.data[0])

    @property
    def step(self) -> int:
        """Values of data from one tile to the next along an axis."""
        if self.spread is Spread.TAPS:
            return 2 * self.r
        if self.spread is Spread.DATA:
            return self.m // 2
        return 2 * self.m if self.spread else self.m

    @property
    def filter_points(self) -> int:
        """Values of a transformed filter along one axis; all later products share the last."""
        count = self.n
        while self.filter[count - 2] == self.filter[-1]:
            count -= 1
        return count

    @cached_property
    def growth(self) -> float:
        """How much larger than in plain summation rounding errors get along one axis, as an RMS.

        With independent data, the product at point j is of the size |G_j| |B_j| (row norms) and is
        multiplied by A_ij on its way to result i, while the r products of plain summation are of
        size 1: the worst result's sqrt(sum over j of (A_ij |G_j| |B_j|)^2 / r).
        """
        sizes = [
            sum(float(g) ** 2 for g in filter_row) * sum(float(b) ** 2 for b in data_row)
            for filter_row, data_row in zip(self.filter, self.data, strict=True)
        ]
        worst = max(
            sum(float(a) ** 2 * size for a, size in zip(row, sizes, strict=True))
            for row in self.result
        )
        return sqrt(worst / self.r)

    @cached_property
    def peak(self) -> float:
        """How much of one tap times one value passes through the products of one axis at most.

        The largest sum over j of |A_ij G_jk B_jl|: an error of one rounding everywhere gets so
        large, beside that of the plain product, where one product exceeds all others.
        """
        return max(
            sum(
                abs(float(a * g[tap] * b[value]))
                for a, g, b in zip(row, self.filter, self.data, strict=True)
            )
            for row in self.result
            for tap in range(self.r)
            for value in range(self.values)
        )


def cook_toom(m: int, r: int, points: Sequence[Fraction | int]) -> Transform:
    """Return F(m, r) for m + r - 2 different points; infinity is added.

    Raises:
        ValueError: the points are not as many, or not different.
    """
    values = tuple(Fraction(point) for point in points)
    if len(set(values)) != m + r - 2 or len(values) != m + r - 2:
        msg = f"F({m}, {r}) needs {m + r - 2} different points, not {', '.join(map(str, values))}"
        raise ValueError(msg)
    last = Fraction(1)
    others = [values[:j] + values[j + 1 :] for j in range(len(values))]
    result = tuple(
        (*(point**i for point in values), last if i == m - 1 else Fraction(0)) for i in range(m)
    )
    scales = [
        prod((point - other for other in rest), start=last)
        for point, rest in zip(values, others, strict=True)
    ]
    taps = tuple(
        tuple(point**k / scale for k in range(r))
        for point, scale in zip(values, scales, strict=True)
    )
    data = tuple((*_polynomial(rest), Fraction(0)) for rest in others)
    infinity = tuple(last if k == r - 1 else Fraction(0) for k in range(r))
    return Transform(m, r, values, result, (*taps, infinity), (*data, _polynomial(values)))


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients, lowest first, of the product of (x - root).

    They are whole numbers over the product of the roots' denominators: fractions would take as long
    as importing a package, at the start of each process that opens a device.
    """
    whole = [1]
    for root in roots:
        whole = [
            root.denominator * high - root.numerator * low
            for high, low in zip([0, *whole], [*whole, 0], strict=True)
        ]
    divisor = prod(root.denominator for root in roots)
    return tuple(Fraction(one, divisor) for one in whole)
