"""Sizes as kernels count them: rounded up, and of three spatial axes whatever the problem has."""

from __future__ import annotations

#: One number for each spatial axis, the last of which is the width.
Axes = tuple[int, ...]


def ceil_div(a: int, b: int) -> int:
    """Divide and round up."""
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    """Round up to a multiple."""
    return ceil_div(a, b) * b


def in_3d(values: Axes, missing: int) -> Axes:
    """Fill in the spatial axes that a 1-D or 2-D problem lacks, before its own."""
    return (missing,) * (3 - len(values)) + values
