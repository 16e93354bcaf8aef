"""Draws by kind of problem: those on which candidates are checked, and on which they are timed."""

from __future__ import annotations

from typing import Any

from convfind.checking.conv_draw import ConvDraw
from convfind.checking.draw import Draw
from convfind.checking.referenced_draw import ReferencedDraw
from convfind.problem import ConvProblem

#: Seed of the draw on which candidates are checked first, the same in every find.
_SEED = 20240613


def first_draw(problem: Any) -> Draw:
    """Return the draw on which every candidate for a plain problem is checked first."""
    if isinstance(problem, ConvProblem):
        return ConvDraw(problem, _SEED, "uniform")
    return ReferencedDraw(problem, _SEED)


def timed_draw(problem: Any, seed: int) -> Draw:
    """Return a draw with data such as users have, on which candidates are timed."""
    if isinstance(problem, ConvProblem):
        return ConvDraw(problem, seed, "clipped")
    return ReferencedDraw(problem, seed)
