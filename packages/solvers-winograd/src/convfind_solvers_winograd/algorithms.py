"""The transforms in use, with points chosen for accuracy.

Among all symmetric sets of points with denominators up to 8, these have the least
`Transform.growth` or come within 5 % of it with a smaller measured error; for F(4, 3) it is a
quarter of that of the customary 0, 1, -1, 2, -2.
"""

from __future__ import annotations

from fractions import Fraction

from convfind_solvers_winograd.cook_toom import Transform, cook_toom
from convfind_solvers_winograd.strided import (
    strided,
    strided_data_gradient,
    strided_weight_gradient,
)


def _symmetric(m: int, r: int, *points: Fraction | int) -> Transform:
    """F(m, r) with every given point and its negative, and with 0 if that makes them enough."""
    zero = (0,) if (m + r) % 2 else ()
    return cook_toom(m, r, (*zero, *(sign * point for point in points for sign in (1, -1))))


F2X3 = _symmetric(2, 3, 1)
F4X3 = _symmetric(4, 3, Fraction(5, 8), Fraction(3, 2))
#: For weight gradients: 3 taps from tiles of 4 x 4 results; its data transform is that of F(4, 3).
F3X4 = _symmetric(3, 4, Fraction(5, 8), Fraction(3, 2))
#: The same of tiles of 5 x 5 and 6 x 6 results.
F3X5 = _symmetric(3, 5, Fraction(3, 8), Fraction(7, 8), Fraction(13, 8))
F3X6 = _symmetric(3, 6, Fraction(1, 2), 1, 2)
F6X3 = _symmetric(6, 3, Fraction(1, 2), 1, 2)
F4X5 = _symmetric(4, 5, Fraction(1, 2), 1, 2)
F5X4 = _symmetric(5, 4, Fraction(1, 2), 1, 2)
F4X7 = _symmetric(4, 7, Fraction(3, 8), Fraction(7, 8), Fraction(5, 4), Fraction(9, 4))
F7X4 = _symmetric(7, 4, Fraction(3, 8), Fraction(7, 8), Fraction(5, 4), Fraction(9, 4))
#: For two taps, along every second value, with stride 2.
_F2X2 = _symmetric(2, 2, Fraction(3, 4))
_F4X2 = _symmetric(4, 2, Fraction(3, 8), Fraction(5, 4))
F2X3_S2, F4X3_S2 = strided(_F2X2), strided(_F4X2)
F4X3_UP2, F8X3_UP2 = strided_data_gradient(_F2X2), strided_data_gradient(_F4X2)
F3X2_D2 = strided_weight_gradient(_F2X2)
STRIDED = (F2X3_S2, F4X3_S2, F4X3_UP2, F8X3_UP2, F3X2_D2)
TRANSFORMS = (F2X3, F4X3, F3X4, F3X5, F3X6, F6X3, F4X5, F5X4, F4X7, F7X4, *STRIDED)
