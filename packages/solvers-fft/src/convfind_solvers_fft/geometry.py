"""`Tiling`: how the tiles of a transform cover a convolution of stride 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from convfind.kit.blocks import Axes
from convfind.kit.plane_geometry import PlaneGeometry, plane_geometry
from convfind.problem import ConvProblem

#: A tile's results along each axis, at least, where there are more: less of them do not pay.
LEAST_STEP = 4


@dataclass(frozen=True, slots=True)
class Tiling:
    """Square tiles of ``tile`` elements a side that cover a convolution.

    They overlap by the window less one, for that many of a tile's results are not of the image but
    of the circle to which the transform closes the tile. But where an image with its padding on
    either side fits a tile, and so do the results, all are right: the padding behind may be that
    before.
    """

    tile: int
    shape: PlaneGeometry
    #: Results of a tile along each axis, and so the way from a tile to the next.
    step: Axes = field(init=False)

    def __post_init__(self) -> None:
        """Measure once what is asked often."""
        object.__setattr__(self, "step", (self._results(0), self._results(1)))

    @property
    def is_useful(self) -> bool:
        """True if tiles have as many results as pay."""
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
    return Tiling(tile, plane_geometry(problem))


@lru_cache(maxsize=64)
def useful_tilings(problem: ConvProblem, sizes: tuple[int, ...]) -> tuple[Tiling, ...]:
    """Return those of sizes of tiles that pay."""
    shape = plane_geometry(problem)
    tilings = (Tiling(size, shape) for size in sizes)
    return tuple(tiling for tiling in tilings if tiling.is_useful)
