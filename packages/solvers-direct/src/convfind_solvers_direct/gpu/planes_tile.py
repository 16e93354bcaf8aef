"""`PlanesTile`: what a work-group of the channels-first GPU kernels holds in local memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convfind.solver import Config
from convfind_solvers_direct.window import Window

#: Positions of a tile that the kernels' divisions are exact for.
_MOST_POSITIONS = 2**15
#: Narrower tiles read more around them than in them.
_NARROWEST = 8
#: Shares of busy items that are as good as the best.
_ABOUT = 0.97


@dataclass(frozen=True, slots=True)
class PlanesTile:
    """Whole sets (channels of one group of one image), or a part of one."""

    sets: int
    bands: int  # of rows of the result, in a set
    band: int  # rows of one: a multiple of an item's
    tiles: int  # of columns of the result, in a band
    tile: int  # columns of one
    tile_source: int  # source columns of one


def planes_tile(shape: Window, config: Config) -> PlanesTile | None:
    """Return the largest tile that fits; None if an item's rows do not."""
    rows, room = config.integer("rows"), config.integer("tile_floats")
    height, width = shape.out[0] + shape.shift[0], shape.out[1]
    strips = -(-height // rows)
    plane = math.prod(shape.size)
    whole = min(
        (room - 8) // max(shape.channels * plane, 1),
        _MOST_POSITIONS // max(shape.filters * strips * width, 1),
    )
    if whole:
        if "items" in config:
            blocks = shape.filters // config.integer("results")
            whole = _busy(whole, max(blocks, 1) * strips * width, config.integer("items"))
        return PlanesTile(whole, 1, strips * rows, 1, width, shape.size[1])
    for bands in range(2, strips + 1):
        band = -(-strips // bands) * rows
        held = min(shape.span(band, 0), shape.size[0]) * shape.size[1]
        fits = shape.channels * (held + 8) <= room
        if fits and shape.filters * (band // rows) * width <= _MOST_POSITIONS:
            return PlanesTile(1, -(-height // band), band, 1, width, shape.size[1])
    held = min(shape.span(rows, 0), shape.size[0]) * shape.channels
    for tiles in range(1, -(-width // _NARROWEST) + 1):
        tile = -(-width // tiles)
        source = min(shape.span(tile, 1) + 1, shape.size[1])
        if held * source <= room and shape.filters * tile <= _MOST_POSITIONS:
            return PlanesTile(1, strips, rows, -(-width // tile), tile, source)
    return None


def _busy(most: int, positions: int, items: int) -> int:
    """Return the most sets of so many positions that leave about as few items idle as any."""

    def share(sets: int) -> float:
        return sets * positions / (-(-sets * positions // items) * items)

    counts = range(-(-most // 2), most + 1)
    least = _ABOUT * max(map(share, counts))
    return max(sets for sets in counts if share(sets) >= least)


def reciprocal(divisor: int) -> int:
    """Return the factor by which QUOTIENT of gpu_stage.h divides."""
    return -(-(2**30) // divisor)
