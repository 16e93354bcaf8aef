"""`Phases`: a strided convolution of few channels as one of stride 1, for Winograd's algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convfind_solvers_direct.cpu_solver import VECTOR
from convfind_solvers_direct.window import Axes, Window

#: Elements of a tile of the image along an axis, and its frequencies.
SIDE = 6
FREQUENCIES = SIDE * SIDE
#: Filters of a register tile.
BLOCK = 2 * VECTOR
#: The share of the peak that products reach, and what the rest of a result costs, in products.
PRODUCT_SHARE, _REST = 0.8, 90.0


@dataclass(frozen=True, slots=True)
class Phases:
    """A window whose channels are those of all phases of the image: 7x7 with stride 2 has four.

    Winograd's F(3x3, 4x4) or F(4x4, 3x3) then saves most of the products (Lavin and Gray, "Fast
    algorithms for convolutional neural networks", 2016).
    """

    window: Window

    @property
    def taps(self) -> Axes:
        """Of a phase, along both axes."""
        sizes = zip(self.window.taps, self.window.stride, strict=True)
        height, width = (-(-taps // step) for taps, step in sizes)
        return height, width

    @property
    def outputs(self) -> int:
        """Pixels of y that a tile meets, along an axis."""
        return SIDE + 1 - self.taps[0]

    @property
    def tiles(self) -> Axes:
        """Rows and columns of tiles of an image."""
        height, width = (-(-pixels // self.outputs) for pixels in self.window.out)
        return height, width

    @property
    def line(self) -> int:
        """Numbers of a virtual pixel in a row of the image."""
        return self.window.channels * self.window.stride[1]

    @property
    def depth(self) -> int:
        """Channels of the convolution of stride 1."""
        return self.line * self.window.stride[0]

    @property
    def pitch(self) -> int:
        """Floats of a transformed row: what tiles and vectors read, zeros around it included."""
        read = ((self.tiles[1] - 1) * self.outputs + SIDE) * self.line
        written = (self.window.padding[1] + self.window.size[1]) * self.window.channels
        return (max(read, written) // VECTOR + 2) * VECTOR

    @property
    def row_floats(self) -> int:
        """Floats of a row of tiles whose columns are transformed."""
        return SIDE * self.window.stride[0] * self.pitch

    @property
    def filters(self) -> int:
        """Filters of whole register tiles."""
        return -(-self.window.filters // BLOCK) * BLOCK

    @property
    def gain(self) -> float:
        """Products of the direct formula to the time of a pixel of y in products."""
        products = FREQUENCIES * self.depth / self.outputs**2
        all_taps = math.prod(self.window.taps)
        return self.window.channels * all_taps / (products / PRODUCT_SHARE + _REST)
