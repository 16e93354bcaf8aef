"""Problems of 1x1 filters with channels last, for the solvers that take no others."""

from __future__ import annotations

from typing import Any

from convfind.problem import ConvProblem
from convfind.types import Direction, Layout


def pointwise(
    direction: Direction,
    images: int,
    channels: int,
    size: tuple[int, ...],
    filters: int,
    *,
    taps: int = 1,
    groups: int = 1,
    **options: Any,
) -> ConvProblem:
    """Return a problem of 1x1 filters, unless ``taps`` says otherwise."""
    rank = len(size)
    return ConvProblem.create(
        direction,
        (images, channels, *size),
        (filters, channels // groups, *(taps,) * rank),
        groups=groups,
        layout=Layout.of(rank, channels_last=True),
        **options,
    )
