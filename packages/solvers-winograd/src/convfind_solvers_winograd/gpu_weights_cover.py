"""How tiles cover the gradient of y, and which of them the products of each point sum up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from convfind.kit.blocks import Axes
from convfind.solver.recipe import ScalarArg, i32
from convfind_solvers_winograd.cook_toom import Transform

#: Tiles whose rows are whole, then those whose rows are short; of each, whether columns are.
_REGIONS = ((False, True), (False, False), (True, False), (True, True))


@dataclass(frozen=True)
class Cover:
    """Tiles of so many images, in four regions: see gpu_weights_tiles.h.

    Where tiles reach past the image's end, as many as do so by one element may be one element
    shorter: the last of n points along the axis, infinity, has only that element of a tile, and
    sums up whole ones only. This is exact.
    """

    transform: Transform
    images: int
    size: Axes  # of y
    unit: int  # what the tiles of a region are filled up to
    shortens: bool

    @cached_property
    def tiles_of_image(self) -> Axes:
        """Rows and columns of tiles."""
        return tuple(-(-size // self.transform.r) for size in self.size)

    @cached_property
    def whole(self) -> Axes:
        """Rows and columns that are not short: one at least."""
        return tuple(
            count - min(count * self.transform.r - size, count - 1) if self.shortens else count
            for count, size in zip(self.tiles_of_image, self.size, strict=True)
        )

    @cached_property
    def ends(self) -> tuple[int, int, int, int]:
        """Where the regions end, in tiles of all images."""
        ends = [0]
        for short in _REGIONS:
            rows, columns = (
                count - whole if one else whole
                for one, count, whole in zip(short, self.tiles_of_image, self.whole, strict=True)
            )
            count = -(-self.images * rows * columns // self.unit) * self.unit
            ends.append(ends[-1] + count)
        _, first, second, third, last = ends
        return first, second, third, last

    @property
    def tiles(self) -> int:
        """Tiles of all images, filled up."""
        return self.ends[3]

    def depth(self, *, last_row: bool, last_column: bool) -> int:
        """Tiles that a point sums up, the last along an axis or another."""
        first, second, third, end = self.ends
        until = second if last_row else third if last_column else end
        return until - (first if last_column else 0)

    @cached_property
    def products(self) -> int:
        """Products of a channel and a filter, of all tiles and points."""
        others = self.transform.n - 1
        return (
            others * others * self.depth(last_row=False, last_column=False)
            + others * self.depth(last_row=True, last_column=False)
            + others * self.depth(last_row=False, last_column=True)
            + self.depth(last_row=True, last_column=True)
        )

    @property
    def mean_depth(self) -> int:
        """Tiles that a point sums up, in the mean."""
        return -(-self.products // self.transform.n**2)

    @property
    def arguments(self) -> tuple[ScalarArg, ...]:
        """The arguments of a transform's kernel."""
        return tuple(map(i32, (*self.tiles_of_image, *self.whole, *self.ends)))


def cover(
    transform: Transform, images: int, size: Axes, unit: int, *, channels_last: bool
) -> Cover:
    """Return the tiles with the fewest products: regions that are filled up may need more.

    Channels first all are whole.
    """
    whole = Cover(transform, images, size, unit, shortens=False)
    return min(whole, replace(whole, shortens=channels_last), key=lambda one: one.products)
