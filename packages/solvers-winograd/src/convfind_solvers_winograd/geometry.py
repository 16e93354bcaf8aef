"""`Geometry`: a convolution as the kernels see it, whatever the direction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory
from convfind.types import Direction

Axes = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """From ``source`` to ``result``; channels and filters are those of one group.

    A data gradient is a convolution of y with the window turned round, its channels and filters
    changed places. Of a weight gradient, ``out`` is the size of y and the result is w.
    """

    source: str
    result: str
    images: int
    groups: int
    channels: int
    filters: int
    size: Axes
    out: Axes
    dilation: Axes
    padding: Axes  # before the first element; negative where elements are left out
    weight_steps: tuple[int, int, int, int]  # group, filter, channel, tap; in elements
    flipped: bool

    def tiles(self, tile: Axes) -> int:
        """Tiles of so many results over all images; those of dilated filters lie apart."""
        count = self.images
        for size, part, apart in zip(self.out, tile, self.dilation, strict=True):
            count *= apart * -(-size // (part * apart))
        return count

    def fill(self, tile: Axes) -> float:
        """Share of the tiles' results that exist."""
        return self.images * prod(self.out) / (self.tiles(tile) * prod(tile))


@lru_cache(maxsize=64)
def geometry(problem: ConvProblem) -> Geometry:
    """Return the convolution that computes a problem in two axes, or whose weights it is after.

    Data gradients of stride 2 have tiles that begin where an odd padding puts them.
    """
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    w_k, w_c, _, w_tap = problem.strides("w")
    height, width = problem.x_shape[2:]
    y_height, y_width = problem.y_shape[2:]
    outer = (problem.x_shape[0], problem.groups)
    above, left = problem.padding
    dilation = problem.dilation[0], problem.dilation[1]
    if problem.direction is not Direction.BACKWARD_DATA:
        result = Memory.Y if problem.direction is Direction.FORWARD else Memory.W
        return Geometry(
            *(Memory.X, result, *outer, c, k),
            *((height, width), (y_height, y_width), dilation, (above, left)),
            *((k * w_k, w_k, w_c, w_tap), False),
        )
    before_h, before_w = (
        (taps - 1) * apart - pad if step == 1 else (1 - pad) // 2
        for taps, apart, pad, step in zip(
            *(problem.filter, dilation, problem.padding, problem.stride), strict=True
        )
    )
    return Geometry(
        *(Memory.Y, Memory.X, *outer, k, c),
        *((y_height, y_width), (height, width), dilation, (before_h, before_w)),
        *((k * w_k, w_c, w_k, w_tap), True),
    )
