"""Every channel by itself on GPUs, channels last, from tiles in local memory."""

from __future__ import annotations

import itertools
import math

from convfind.device.target import Target
from convfind.kit.blocks import ceil_div, memory_seconds, peak_seconds
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.recipe import TensorMapArg
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import DataType
from convfind_solvers_direct.gpu.conv import TILE_FITS, OneLaunch, Work
from convfind_solvers_direct.window import Window, window

_MOST_ALONG_AXIS = 65535
#: Compute capability since which a map tells the copy engine of a tensor, bytes of channels that it
#: copies whole, and places of a copy along an axis.
_MAPS_SINCE, _PIECE_BYTES, _MOST_OF_BOX = 90, 16, 256
#: Local memory of a work-group, of which alignment takes some, and its items.
_LOCAL_BYTES, _ALIGNMENT = 48 * 1024, 128
_FEWEST_ITEMS, _MOST_ITEMS = 32, 256
#: Sums and weights of an item.
_MOST_KEPT = 160

_SLICES = (8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 128)
#: Tiles among which the default is: items across, columns of each, items down, rows of each.
_TILES = (
    *((4, 2, 1, 7), (2, 7, 2, 2), (4, 2, 2, 4), (4, 2, 2, 7), (4, 2, 4, 7)),
    *((4, 2, 4, 2), (2, 1, 4, 2), (1, 1, 4, 1)),
)
#: How much longer slices take than those of 64 channels, whose neighbours lie in other banks.
_SLICE_COSTS = {64: 1.0, 96: 1.03, 32: 1.03, 48: 1.07, 72: 1.1, 80: 1.1, 16: 1.15, 24: 1.2, 8: 1.5}
#: How much longer work-groups of at least so many items take.
_ITEM_COSTS = ((160, 1.04), (128, 1.0), (96, 1.02), (64, 1.08), (32, 1.4))
#: Powers of all, for what places read beside a tile and for units without work-groups; how
#: much longer work-groups take that leave room for few others on a unit, and from how many bytes of
#: local memory on.
_HALO_POWER, _IDLE_POWER, _LARGE_COST, _LARGE_BYTES = 0.15, 0.5, 1.1, 40 * 1024
#: A launch with its first copies; the shares of memory's bandwidth, of 16 bits and 32, and of the
#: peak of arithmetic, and how much longer it takes where items copy.
_SECONDS, _NARROW_SHARE, _BANDWIDTH_SHARE, _ARITHMETIC_SHARE = 2.5e-6, 0.75, 0.9, 0.42
_BY_ITEMS = 2.0


class TilesConv(OneLaunch):
    """Forward, and backward-data without strides."""

    channels_last = True
    prefix = "direct-gpu-tiles"
    _file = "gpu_tiles"

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """All tensors moved once, or the sums where these take longer, and the first copies."""
        share = _BANDWIDTH_SHARE if problem.dtype is DataType.FLOAT32 else _NARROW_SHARE
        peak = peak_seconds(problem.flops, target)
        moved = max(memory_seconds(problem.traffic, target, share), peak / _ARITHMETIC_SHARE)
        if not _by_map(target):
            moved *= _BY_ITEMS
        return max(peak / (_SECONDS + moved), 0.02)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if shape.channels > 1 or shape.filters > 1:
            return Rejected(Reason.GROUPS, "every channel has to be a group")
        if shape.groups % (pieces := _PIECE_BYTES // problem.dtype.size):
            return Rejected(Reason.CHANNELS, f"whole {pieces} channels, not {shape.groups}")
        if shape.is_gradient and shape.stride != (1, 1):
            return Rejected(Reason.STRIDE, "the data gradient of a stride has several windows")
        if max(shape.images, shape.out[0]) > _MOST_ALONG_AXIS:
            return Rejected(Reason.SIZE_LIMIT, f"{shape.images} images, {shape.out[0]} rows")
        if target.local_memory < _LOCAL_BYTES:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {_LOCAL_BYTES} bytes")
        if not _fits(shape, problem.dtype, target, _least(problem.dtype)):
            return Rejected(Reason.FILTER_SIZE, "weights, or the smallest tile, do not fit")
        return APPLICABLE

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile that wastes least, of those measured: little beside the image, short halos."""
        shape, dtype = window(problem), problem.dtype
        slices = [size for size in _SLICE_COSTS if size <= max(shape.groups, 8)]
        tiles = (
            Config(slice=size, across=across, columns=columns, down=down, rows=rows, lanes=lanes)
            for size, (across, columns, down, rows), lanes in itertools.product(
                slices, _TILES, (2, 1)
            )
        )
        legal = (tile for tile in tiles if _fits(shape, dtype, target, tile))
        units = target.compute_units
        return min(legal, key=lambda tile: _cost(shape, dtype, tile, units), default=_least(dtype))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit."""
        shape, dtype = window(problem), problem.dtype
        fits = Constraint("tile", lambda tile: _fits(shape, dtype, target, tile), TILE_FITS)
        return SearchSpace(
            (
                Parameter("slice", _SLICES, "channels of a work-group"),
                Parameter("across", (1, 2, 3, 4, 7, 8), "items along the columns of a tile"),
                Parameter("down", (1, 2, 3, 4, 7, 8), "items along its rows"),
                Parameter("columns", (1, 2, 3, 4, 5, 7, 8), "columns of the result of an item"),
                Parameter("rows", (1, 2, 3, 4, 5, 7, 8, 14), "rows of the result of an item"),
                Parameter("lanes", (1, 2, 4), "channels of an item"),
            ),
            (fits,),
        )

    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        rows, columns = _results(config)
        slices = ceil_div(shape.groups, config.integer("slice"))
        return Work(
            {"DTYPE": problem.dtype.upper(), **config.defines, "BY_MAP": _by_map(target)},
            (shape.groups, *shape.size, *shape.out, *shape.padding),
            (
                slices * ceil_div(shape.out[1], columns),
                ceil_div(shape.out[0], rows),
                shape.images,
            ),
            _items(config),
        )

    def _source(
        self, problem: ConvProblem, shape: Window, target: Target, config: Config
    ) -> str | TensorMapArg:
        if not _by_map(target):
            return shape.source
        (height, width), channels = shape.size, shape.groups
        rows, columns = _places(shape, config)
        return TensorMapArg(
            *(shape.source, 0, problem.dtype),
            sizes=(channels, width, height, shape.images),
            strides=(channels, channels * width, channels * width * height),
            box=(config.integer("slice"), columns, rows, 1),
            spreads=False,
        )


def _by_map(target: Target) -> bool:
    return target.backend == "cuda" and target.compute_capability >= _MAPS_SINCE


def _items(config: Config) -> int:
    size, lanes, across, down = config.integers("slice", "lanes", "across", "down")
    return size // lanes * across * down


def _results(config: Config) -> tuple[int, int]:
    """Rows and columns of a work-group's results."""
    down, rows, across, columns = config.integers("down", "rows", "across", "columns")
    return down * rows, across * columns


def _places(shape: Window, config: Config) -> tuple[int, int]:
    """Rows and columns of the source that they meet."""
    rows, columns = _results(config)
    return shape.span(rows, 0), shape.span(columns, 1)


def _local_bytes(shape: Window, dtype: DataType, config: Config) -> int:
    size, lanes = config.integers("slice", "lanes")
    rows, columns = _places(shape, config)
    weights = DataType.FLOAT32.size * shape.taps * (size + lanes)
    return rows * columns * size * dtype.size + weights + _ALIGNMENT


def _fits(shape: Window, dtype: DataType, target: Target, config: Config) -> bool:
    """Return whether a tile fits work-group, registers, local memory and a copy."""
    size, lanes, rows, columns = config.integers("slice", "lanes", "rows", "columns")
    return (
        not size % lanes
        and not size * dtype.size % _PIECE_BYTES
        and (lanes > 1 or dtype is DataType.FLOAT32)
        and lanes * (rows * columns + shape.taps) <= _MOST_KEPT
        and _FEWEST_ITEMS <= _items(config) <= min(_MOST_ITEMS, target.max_work_group)
        and max(_places(shape, config)) <= _MOST_OF_BOX
        and _local_bytes(shape, dtype, config) <= _LOCAL_BYTES
    )


def _least(dtype: DataType) -> Config:
    """Return the tile of the fewest registers and bytes."""
    lanes = 1 if dtype is DataType.FLOAT32 else 2
    size = 8 * lanes
    return Config(slice=size, across=1, columns=1, down=4, rows=1, lanes=lanes)


def _cost(shape: Window, dtype: DataType, config: Config, units: int) -> float:
    """Return how much longer a tile takes than one without losses, as was measured on an H200."""
    size, rows, columns = config.integers("slice", "rows", "columns")
    slices = ceil_div(shape.groups, size)
    cost, groups, places = _SLICE_COSTS[size] * slices * size, slices * shape.images, 1.0
    for all_results, results, read in zip(
        shape.out, _results(config), _places(shape, config), strict=True
    ):
        tiles = ceil_div(all_results, results)
        cost, groups, places = cost * tiles * results, groups * tiles, places * read / results
    cost *= next(more for items, more in _ITEM_COSTS if _items(config) >= items)
    if _local_bytes(shape, dtype, config) > _LARGE_BYTES:
        cost *= _LARGE_COST
    # An item reads its weights for all its results.
    cost *= 1 + 1 / (rows * columns)
    idle = math.pow(max(1.0, units / groups), _IDLE_POWER)
    return cost * math.pow(places, _HALO_POWER) * idle
