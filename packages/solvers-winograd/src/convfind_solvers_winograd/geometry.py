"""The convolution that tiles cover, and how many of them do."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from convfind.kit.blocks import Axes
from convfind.kit.plane_geometry import PlaneGeometry, plane_geometry
from convfind.problem import ConvProblem


@lru_cache(maxsize=64)
def geometry(problem: ConvProblem) -> PlaneGeometry:
    """Return the convolution in two axes that computes a problem, or whose weight gradient it is.

    Data gradients of stride 2 have tiles that begin where an odd padding puts them.
    """
    shape = plane_geometry(problem)
    if not shape.flipped or max(problem.stride) == 1:
        return shape
    axes = zip(problem.stride, problem.padding, shape.padding, strict=True)
    padding = (before if step == 1 else (1 - pad) // 2 for step, pad, before in axes)
    return replace(shape, padding=tuple(padding))


def count_tiles(shape: PlaneGeometry, tile: Axes) -> int:
    """Return the tiles of so many results over all images; those of dilated filters lie apart."""
    count = shape.images
    for size, part, apart in zip(shape.out, tile, shape.dilation, strict=True):
        count *= apart * -(-size // (part * apart))
    return count


def filled(shape: PlaneGeometry, tile: Axes) -> float:
    """Return the share of the tiles' results that exist."""
    return shape.images * prod(shape.out) / (count_tiles(shape, tile) * prod(tile))
