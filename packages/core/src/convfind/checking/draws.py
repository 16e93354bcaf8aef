"""Draws by kind of problem: those on which candidates are checked, and on which they are timed."""

from __future__ import annotations

from typing import Any

from convfind.checking.conv_draw import ConvDraw, is_large
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


def is_checked_quickly(problem: Any, *, has_assistant: bool) -> bool:
    """Return whether the results of another draw are checked without a whole reference for it.

    Args:
        problem: a plain problem.
        has_assistant: whether a device computes references of large problems.
    """
    if not isinstance(problem, ConvProblem):
        return False
    return problem.activation is None and not (has_assistant and is_large(problem))
