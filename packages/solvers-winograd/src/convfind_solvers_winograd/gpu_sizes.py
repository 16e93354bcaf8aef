"""The transformed tensors of forward convolution and of the data gradient on GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

from convfind.kit.blocks import Axes, Grid, round_up
from convfind.kit.plane_geometry import PlaneGeometry
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Memory, i64
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu_product import DEPTH_UNIT, ROW_UNIT, SPLIT_UNIT, Product

#: Work-items of the filters' transform.
_FILTER_GROUP = 128


class FilterOrder(Enum):
    """How transformed filters lie in memory: see gpu_conv.h.

    The values of each are filters and channels of a work-group of the transform, what these are
    filled up to, and bytes of an element.
    """

    PLAIN = (32, 4, ROW_UNIT, DEPTH_UNIT, 4)
    SPLIT = (4, 32, SPLIT_UNIT, SPLIT_UNIT, 8)  # for Hopper's matrix units
    FRAGMENTS = (4, 32, 32, 32, 4)  # for gpu_fused_mma.cl


@dataclass(frozen=True, slots=True)
class ConvSizes:
    """The transformed tensors of so many images."""

    shape: PlaneGeometry
    transform: Transform
    images: int
    channels_last: bool
    order: FilterOrder = FilterOrder.PLAIN
    along: tuple[bool, ...] = (True, True)  # which axes are transformed

    @property
    def tiles_of_image(self) -> Axes:
        """Rows and columns of tiles: of each phase of dilated filters as many."""
        return tuple(
            apart * -(-size // (apart * (self.transform.m if transformed else 1)))
            for size, apart, transformed in zip(
                *(self.shape.out, self.shape.dilation, self.along), strict=True
            )
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments that kernels for the whole of it have first, behind the epilogue's."""
        shape = self.shape
        return (
            *(shape.images, shape.groups, shape.channels, shape.filters),
            *(*shape.size, *shape.out, *shape.padding, *self.tiles_of_image),
        )

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.images * prod(self.tiles_of_image)

    @property
    def padded_tiles(self) -> int:
        """Their number, filled up."""
        return round_up(self.tiles, ROW_UNIT)

    @property
    def channels(self) -> int:
        """Channels of a group, filled up."""
        return round_up(self.shape.channels, DEPTH_UNIT)

    @property
    def filters(self) -> int:
        """Filters of a group, filled up."""
        return round_up(self.shape.filters, ROW_UNIT)

    @property
    def packed_channels(self) -> int:
        """Channels of a group, filled up, of the transformed weights."""
        return round_up(self.shape.channels, self.order.value[3])

    @property
    def packed_filters(self) -> int:
        """Filters of a group, filled up, of the transformed weights."""
        return round_up(self.shape.filters, self.order.value[2])

    @property
    def points(self) -> int:
        """Products of a tile for a channel and a filter."""
        return int(self.transform.n ** sum(self.along))

    @property
    def data(self) -> int:
        """Elements of one point of the data, all groups."""
        return self.shape.groups * self.channels * self.padded_tiles

    @property
    def sums(self) -> int:
        """Elements of one point of the products, all groups."""
        if self.channels_last:
            return self.shape.groups * self.filters * self.tiles
        return self.shape.groups * self.shape.filters * self.padded_tiles

    @property
    def packed_bytes(self) -> int:
        """Bytes of the transformed weights."""
        matrices = self.points * self.shape.groups
        return self.order.value[4] * matrices * self.packed_channels * self.packed_filters

    @property
    def region_bytes(self) -> tuple[int, int]:
        """Bytes of transformed data and of sums of products."""
        return 4 * self.points * self.data, 4 * self.points * self.sums

    @property
    def product(self) -> Product:
        """The products of all points and groups."""
        rows, columns = self.shape.filters, self.tiles
        if self.channels_last:
            rows, columns = columns, rows
        return Product(self.points * self.shape.groups, rows, columns, self.channels)


def filter_launch(transforms: Program, sizes: ConvSizes) -> Launch:
    """Transform the weights to packed memory."""
    shape = sizes.shape
    group, filters, channels, tap = shape.weight_steps
    block_filters, block_channels, *_ = sizes.order.value
    groups = (
        -(-sizes.packed_filters // block_filters),
        sizes.packed_channels // block_channels * shape.groups,
    )
    return Grid(transforms, "winograd_gpu_filter", groups, _FILTER_GROUP)(
        *(Memory.W, Memory.PACKED),
        *(shape.groups, shape.channels, shape.filters),
        *(sizes.packed_channels, sizes.packed_filters, i64(group)),
        *(filters, channels, tap, shape.flipped),
    )
