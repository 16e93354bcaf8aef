"""`Phases` and `Blocks`: convolutions of few channels in pieces for Winograd's algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from convfind.kit.blocks import Axes
from convfind_solvers_direct.cpu.solver import VECTOR
from convfind_solvers_direct.window import Window

#: Elements of a tile of the image along an axis, and its frequencies.
SIDE = 6
FREQUENCIES = SIDE * SIDE
#: Taps along an axis that the transforms are for.
POINTS = (3, 4)
#: Filters of a register tile.
BLOCK = 2 * VECTOR
#: The share of the peak that products reach.
PRODUCT_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Phases:
    """A window whose channels are those of all phases of the image: 7x7 with stride 2 has four.

    Winograd's F(3x3, 4x4) or F(4x4, 3x3) then saves most of the products (Lavin and Gray, "Fast
    algorithms for convolutional neural networks", 2016).
    """

    window: Window
    in_blocks: ClassVar[bool] = False

    @property
    def taps(self) -> Axes:
        """Taps of a phase, along both axes."""
        sizes = zip(self.window.window, self.window.stride, strict=True)
        return tuple(-(-taps // step) for taps, step in sizes)

    @property
    def pieces(self) -> Axes:
        """Phases along both axes."""
        return self.window.stride

    @property
    def outputs(self) -> int:
        """Pixels of y that a tile meets, along an axis."""
        return SIDE + 1 - self.taps[0]

    @property
    def tiles(self) -> Axes:
        """Rows and columns of tiles of an image."""
        return tuple(-(-pixels // self.outputs) for pixels in self.window.out)

    @property
    def line(self) -> int:
        """Numbers of a virtual pixel in a row of the image."""
        return self.window.channels * self.pieces[1]

    @property
    def depth(self) -> int:
        """Channels of all pieces."""
        return self.line * self.pieces[0]

    @property
    def pitch(self) -> int:
        """Floats of a transformed row: what tiles and vectors read, zeros around it included."""
        read = ((self.tiles[1] - 1) * self.outputs + SIDE) * self.line
        written = (self.window.padding[1] + self.window.size[1]) * self.window.channels
        return (max(read, written) // VECTOR + 2) * VECTOR

    @property
    def row_floats(self) -> int:
        """Floats of a row of tiles whose columns are transformed."""
        return SIDE * self.pieces[0] * self.pitch

    def spectrum(self, tiles: int) -> int:
        """Floats of a frequency of so many tiles."""
        return tiles * self.depth + VECTOR

    @property
    def filters(self) -> int:
        """Filters of whole register tiles."""
        return -(-self.window.filters // BLOCK) * BLOCK

    @property
    def covered(self) -> float:
        """Pixels of all tiles to those of y: tiles at the edges reach past it."""
        return math.prod(self.tiles) * self.outputs**2 / math.prod(self.window.out)

    def gain(self, rest: float) -> float:
        """Products of the direct formula to the time of a pixel of y in products.

        ``rest``: what is no product of the algorithm's, for a pixel and a filter.
        """
        products = FREQUENCIES * self.depth / self.outputs**2
        all_taps = self.window.taps
        return self.window.channels * all_taps / (products / PRODUCT_SHARE + rest)


@dataclass(frozen=True, slots=True)
class Blocks(Phases):
    """A window of stride 1 whose filter is cut into blocks: 9x9 has nine of 3x3 taps.

    Each is a filter of its own of an image that begins so many pixels further on. All of them meet
    the same pixels of y, whose tiles are transformed once.
    """

    in_blocks: ClassVar[bool] = True

    @property
    def taps(self) -> Axes:
        """Taps of a block, along both axes."""
        return _blocks(self.window.window)[0]

    @property
    def pieces(self) -> Axes:
        """Blocks along both axes."""
        return _blocks(self.window.window)[1]

    @property
    def pitch(self) -> int:
        """Floats of a transformed row: whole vectors of places, and what the last of them meet."""
        places = self.tiles[1] * self.outputs * self.window.channels + self._halo
        read = places + VECTOR + SIDE * self.window.channels
        written = (self.window.padding[1] + self.window.size[1]) * self.window.channels
        return (max(read, written) // VECTOR + 2) * VECTOR

    def spectrum(self, tiles: int) -> int:
        """Floats of a frequency of so many tiles, each of another row at worst."""
        places = self.outputs * self.window.channels + self._halo
        return self.pieces[0] * (tiles * places + VECTOR)

    @property
    def _halo(self) -> int:
        """Numbers behind neighbouring tiles that blocks on their right meet."""
        return (self.pieces[1] - 1) * self.taps[1] * self.window.channels


@lru_cache(maxsize=64)
def _blocks(taps: Axes) -> tuple[Axes, Axes]:
    """Return taps of a block, and blocks, along both axes: the fewest products for a result."""
    cuts = [((size, size), (-(-taps[0] // size), -(-taps[1] // size))) for size in POINTS]
    return min(cuts, key=lambda cut: math.prod(cut[1]) / (SIDE + 1 - cut[0][0]) ** 2)
