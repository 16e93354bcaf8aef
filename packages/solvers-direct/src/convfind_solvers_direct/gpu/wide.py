"""Few channels a group and stride 1 on GPUs, channels first: four columns an item."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.blocks import copies_past_registers, has_room
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Parameter
from convfind_solvers_direct.gpu.conv import (
    MOST_FLOATS,
    MOST_WEIGHTS,
    PLAIN_FLOAT32,
    OneLaunch,
    TileSolver,
    Work,
    most_weights,
)
from convfind_solvers_direct.gpu.planes_tile import reciprocal
from convfind_solvers_direct.window import Window, window

_MOST_TAPS = 11
#: Fours that an item copies of a channel.
_MOST_COPIES = 24
#: Sums of an item.
_MOST_SUMS = 64
#: Columns by which rows in local memory may be longer, for fewer conflicts of banks.
_MOST_SPARE = 3
#: Work-items at a time on a unit; what filling it with new ones costs, in images.
_RESIDENT_ITEMS, _CHAIN_START = 512, 0.5
#: Where memory is the limit, chains gain nothing.
_FEW_TAPS = 9
_SMALL_PLANE = 1024
ROWS = Parameter("rows", (2, 4, 5, 6, 7, 8), "rows of the result of an item")
RESULTS = Parameter("results", (1, 2, 4), "result channels of an item")
WIDE_ITEMS = Parameter("items", tuple(range(32, 257, 32)), "of a work-group")
CHAIN = Parameter("chain", (1, 2, 3, 4, 6, 8, 16), "images of a work-group, one after the other")


@dataclass(frozen=True, slots=True)
class WideTile:
    """A work-group's part of an image: a band of strips of rows, of a run of groups."""

    above: int  # rows of zeros
    before: int  # fours of columns of zeros
    lead: int  # columns of these before the first tap
    pitch: int  # fours of a row
    rows: int  # in local memory, of a plane
    strips: int
    bands: int
    run: int
    floats: int  # of a channel in local memory
    kept: int  # weights in local memory
    copies: int  # of an item, of a channel


def wide_tile(shape: Window, config: Config) -> WideTile | None:
    """As many groups as keep the items busy, or a band of one; None if rows are too wide."""
    rows, items = config.integer("rows"), config.integer("items")
    above, left = shape.zeros_before
    before = -(-left // 4)
    lead = 4 * before - left
    fours = shape.out[1] // 4
    share = fours * (shape.filters // config.integer("results"))
    if share > items:
        return None
    least = max(before + shape.size[1] // 4, fours - 1 + (lead + shape.window[1] + 6) // 4)
    # Where one strip ends and the next begins, neighbouring items read neighbouring banks.
    pitches = range(least, least + _MOST_SPARE)
    pitch = next((pitch for pitch in pitches if (rows * pitch - fours) % 8 == 0), least)
    all_strips = -(-shape.out[0] // rows)
    strips = min(all_strips, items // share)
    bands = -(-all_strips // strips)
    strips = -(-all_strips // bands)
    run = min(max(items // (share * strips), 1), shape.groups) if bands == 1 else 1
    height = strips * rows + shape.window[0] - 1
    return WideTile(
        above,
        before,
        lead,
        pitch,
        height,
        strips,
        bands,
        run,
        floats=4 * pitch * height * run,
        kept=run * shape.channels * shape.filters * shape.taps,
        copies=-(-run * height * (shape.size[1] // 4) // items),
    )


def _fits(shape: Window, config: Config) -> bool:
    tile = wide_tile(shape, config)
    if tile is None or tile.copies > _MOST_COPIES:
        return False
    kept = tile.kept if shape.channels > 1 else 0
    return _stages(shape, config) * tile.floats + kept <= MOST_FLOATS


def _stages(shape: Window, config: Config) -> int:
    return min(config.integer("chain") * shape.channels, 2)


class WideConv(OneLaunch, TileSolver):
    """Forward and backward-data."""

    channels_last = False
    domain = PLAIN_FLOAT32
    prefix = "direct-gpu-wide"
    _file = "gpu_wide"
    version = 3
    arithmetic_share = 0.45
    parameters = (ROWS, WIDE_ITEMS, RESULTS, CHAIN)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Seven or eight rows, of two results where they are even; fewer rows where these fit."""
        shape = window(problem)
        is_small = shape.taps * shape.channels <= _FEW_TAPS
        is_small = is_small and math.prod(shape.out) <= _SMALL_PLANE
        heights = (4,) if is_small else (7, 8, 4)
        tall = min(heights, key=lambda rows: -(-shape.out[0] // rows) * rows)
        items = min(128, target.max_work_group)
        pairs = shape.filters % 2 == 0 and shape.taps <= MOST_WEIGHTS // 2
        results = 2 if pairs else 1
        others = (
            Config(rows=rows, items=count, results=results, chain=1)
            for count in (items, 256, 64, 32)
            for rows in (tall, 4, 2)
        )
        config = next(config for config in others if self.fits(shape, target, config))
        many = shape.taps > _FEW_TAPS or shape.channels > 1
        return _chained(shape, config, target) if many else config

    def fits(self, shape: Window, target: Target, config: Config) -> bool:
        """Return whether a config's tile fits work-group, registers and local memory."""
        rows, items, results = config.integers("rows", "items", "results")
        return (
            shape.filters % results == 0
            and 4 * rows * results <= _MOST_SUMS
            and results * shape.taps <= MOST_WEIGHTS
            and items <= target.max_work_group
            and _fits(shape, config)
        )

    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        tile = wide_tile(shape, config)
        assert tile is not None
        items, chain = config.integers("items", "chain")
        macros = {
            **config.without("chain").defines,
            "COPIES": tile.copies if tile.copies <= 8 else -(-tile.copies // 4) * 4,
            "LEAD": tile.lead,
            "STAGES": _stages(shape, config),
            "KEPT": -(-tile.kept // 64) * 64 if shape.channels > 1 else 4,
            "ASYNC": copies_past_registers(target),
            "TILE_FLOATS": -(-tile.floats // 512) * 512,
        }
        runs, chains = -(-shape.groups // tile.run), -(-shape.images // chain)
        numbers = (
            *(shape.images, shape.groups, *shape.size, *shape.out, tile.above),
            *(4 * tile.before, 4 * tile.pitch, tile.run, chain, tile.bands, tile.strips),
            *map(reciprocal, (shape.size[1] // 4, tile.rows)),
        )
        return Work(macros, numbers, tile.bands * runs * chains, items)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        most = most_weights(target)
        if shape.taps > most or max(shape.window) > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"is for {most} taps at most")
        if min(shape.zeros_before) < 0:
            return Rejected(Reason.PADDING, "more zeros than the filter reaches")
        if shape.size[1] % 4 or shape.out[1] % 4:
            return Rejected(Reason.SIZE_LIMIT, "rows must be whole fours")
        if not (room := has_room(target, local_bytes=4 * MOST_FLOATS)):
            return room
        config = Config(rows=2, items=min(256, target.max_work_group), results=1, chain=1)
        if not self.fits(shape, target, config):
            return Rejected(Reason.SIZE_LIMIT, "rows do not fit local memory")
        return APPLICABLE


def _chained(shape: Window, config: Config, target: Target) -> Config:
    """Choose the images of a work-group: the fewest turns of all units, of those few chains."""
    tile = wide_tile(shape, config)
    assert tile is not None
    slots = target.compute_units * max(_RESIDENT_ITEMS // config.integer("items"), 1)
    tiles = tile.bands * -(-shape.groups // tile.run)

    def turns(chain: int) -> float:
        groups = tiles * -(-shape.images // chain)
        return -(-groups // slots) * (chain + _CHAIN_START)

    legal = [int(chain) for chain in CHAIN.values if _fits(shape, config.replace(chain=int(chain)))]
    return config.replace(chain=min(legal, key=turns))
