"""`Geometry`: a convolution of stride 1 as the kernels see it; `Tiling`: how tiles cover it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory
from convfind.types import Direction

Axes = tuple[int, int]
#: A tile's results along each axis, at least, where there are more: less of them do not pay.
LEAST_STEP = 4


@dataclass(frozen=True, slots=True)
class Geometry:
    """From ``source`` to ``result``; channels and filters are those of one group.

    A data gradient is a convolution of y with the window turned round, its channels and filters
    changed places.
    """

    source: str
    result: str
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


@lru_cache(maxsize=64)
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
    """Square tiles of ``tile`` elements a side that cover a convolution.

    They overlap by the window less one, for that many of a tile's results are not of the image but
    of the circle to which the transform closes the tile. But where an image with its padding on
    either side fits a tile, and so do the results, all are right: the padding behind may be that
    before.
    """

    tile: int
    shape: Geometry
    #: Results of a tile along each axis, and so the way from a tile to the next.
    step: Axes = field(init=False)

    def __post_init__(self) -> None:
        """Measure once what is asked often."""
        object.__setattr__(self, "step", (self._results(0), self._results(1)))

    @property
    def is_useful(self) -> bool:
        """Whether tiles have as many results as pay."""
        return all(
            step >= LEAST_STEP or step >= out
            for step, out in zip(self.step, self.shape.out, strict=True)
        )

    @property
    def tiles_of_image(self) -> Axes:
        """Tiles along each axis."""
        (height, width), (down, right) = self.shape.out, self.step
        return -(-height // down), -(-width // right)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.shape.images * prod(self.tiles_of_image)

    @property
    def points(self) -> int:
        """Complex numbers that determine the spectrum of a real tile."""
        return self.tile**2 // 2 + 2

    def _results(self, axis: int) -> int:
        shape = self.shape
        window, out, size = shape.window[axis], shape.out[axis], shape.size[axis]
        before = shape.padding[axis]
        behind = out + window - 1 - before - size
        if max(window, out, size + before, size + behind) <= self.tile:
            return out
        return self.tile + 1 - window


def tiling_of(problem: ConvProblem, tile: int) -> Tiling:
    """Return how tiles of a size cover a problem."""
    return Tiling(tile, geometry(problem))


@lru_cache(maxsize=64)
def useful_tilings(problem: ConvProblem, sizes: tuple[int, ...]) -> tuple[Tiling, ...]:
    """Return those of sizes of tiles that pay."""
    shape = geometry(problem)
    tilings = (Tiling(size, shape) for size in sizes)
    return tuple(tiling for tiling in tilings if tiling.is_useful)
