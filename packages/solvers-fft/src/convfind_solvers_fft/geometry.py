"""`Geometry`: a convolution of stride 1 as the kernels see it; `Tiling`: how tiles cover it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from convfind.problem import ConvProblem
from convfind.solution import Memory
from convfind.types import Direction

Axes = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """From ``source`` to ``result``; channels and filters are those of one group.

    A data gradient is a convolution of y with the window turned round, its channels and filters
    changed places.
    """

    source: Memory
    result: Memory
    images: int
    groups: int
    channels: int
    filters: int
    size: Axes
    out: Axes
    window: Axes
    padding: Axes  # before the first element; negative where elements are left out
    weight_steps: tuple[int, int, int, int]  # group, filter, channel, tap; in elements
    flipped: bool


def geometry(problem: ConvProblem) -> Geometry:
    """Return the convolution that computes a forward problem or a data gradient in two axes."""
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    w_k, w_c, _, w_tap = problem.strides("w")
    height, width = problem.x_shape[2:]
    y_height, y_width = problem.y_shape[2:]
    rows, columns = problem.filter
    above, left = problem.padding
    outer = (problem.x_shape[0], problem.groups)
    if problem.direction is Direction.BACKWARD_DATA:
        return Geometry(
            *(Memory.Y, Memory.X, *outer, k, c),
            *((y_height, y_width), (height, width), (rows, columns)),
            (rows - 1 - above, columns - 1 - left),
            *((k * w_k, w_c, w_k, w_tap), True),
        )
    return Geometry(
        *(Memory.X, Memory.Y, *outer, c, k),
        *((height, width), (y_height, y_width), (rows, columns), (above, left)),
        *((k * w_k, w_k, w_c, w_tap), False),
    )


@dataclass(frozen=True, slots=True)
class Tiling:
    """Square tiles of ``tile`` elements a side, overlapping by the window less one."""

    tile: int
    window: Axes
    out: Axes
    images: int

    @property
    def step(self) -> Axes:
        """Results of a tile along each axis, and so the way from a tile to the next."""
        rows, columns = self.window
        return self.tile + 1 - rows, self.tile + 1 - columns

    @property
    def tiles_of_image(self) -> Axes:
        """Tiles along each axis."""
        (height, width), (down, right) = self.out, self.step
        return -(-height // down), -(-width // right)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.images * prod(self.tiles_of_image)

    @property
    def points(self) -> int:
        """Complex numbers that determine the spectrum of a real tile."""
        return self.tile**2 // 2 + 2
