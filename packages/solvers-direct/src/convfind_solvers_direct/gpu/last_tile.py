"""The tile of a work-group of the GPU solver for last layers, and the usual choice of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from convfind.device.target import Target
from convfind.kit.blocks import copies_past_registers
from convfind.solver import Config
from convfind.solver.search_space import Parameter
from convfind_solvers_direct.gpu.conv import MOST_FLOATS
from convfind_solvers_direct.gpu.first import tiles_of
from convfind_solvers_direct.window import Window

FEWEST_ITEMS, MOST_ITEMS = 32, 256
#: Sums of an item, and values of the source that it holds: with more, compilers spill.
_MOST_SUMS, _MOST_VALUES = 96, 112
#: Places in a channel that an item copies.
_MOST_COPIES = 64
#: Products of straight code a channel; with more, the filter's rows are a loop: of 3888 clang does
#: not unroll all, and keeps the values in memory.
_MOST_CODE = 2700
#: Taps along an axis from which on sums, and not memory, take the time.
_LARGE = 7
#: Work-groups of a unit, with small and with large filters, under which channels are shared out.
_FEWEST_GROUPS, _FEWEST_LARGE_GROUPS = 2, 0.9
_MOST_TEAMS = 4
#: Channels of a team in a part, at least.
_FEWEST_CHANNELS = 8

_ROWS = Parameter("rows", (1, 2, 4, 6, 8), "rows of the result of an item")
_COLUMNS = Parameter("columns", (4, 8), "columns of the result of an item")
_ACROSS = Parameter("across", (4, 8, 16, 32), "items along the columns of a tile")
_DOWN = Parameter("down", (1, 2, 4, 8, 16), "items along its rows")
_TEAMS = Parameter("teams", (1, 2, 4, 8), "items with the same results, of other channels")
_DEPTH = Parameter("depth", (1, 2, 4, 8), "channels of a team in local memory at a time")
_STAGES = Parameter("stages", (2, 3), "times that many are in local memory or on their way")
_ONE_STAGE = Parameter("stages", (1,), "times that many are in local memory")
_PARTS = Parameter("parts", (1, 2, 4, 8, 16, 32), "work-groups that share a tile's channels")


def parameters(target: Target) -> tuple[Parameter, ...]:
    """Return what configs choose: how many stages where some may be on their way."""
    stage = _STAGES if copies_past_registers(target) else _ONE_STAGE
    return (_ROWS, _COLUMNS, _ACROSS, _DOWN, _TEAMS, _DEPTH, stage, _PARTS)


def is_rolled(shape: Window, config: Config) -> bool:
    """Return whether the filter's rows are a loop, since straight code would be too long."""
    return _sums(shape, config) * shape.taps > _MOST_CODE


def items_of(config: Config) -> int:
    """Work-items of a work-group."""
    return math.prod(config.integers("across", "down", "teams"))


def fits(shape: Window, target: Target, config: Config) -> bool:
    """Whether a config's tile fits work-group, registers and local memory, and parts have channels.

    The arithmetic is that of kernels/gpu_last.cl.
    """
    rows, columns, across, down, teams, depth = config.integers(
        "rows", "columns", "across", "down", "teams", "depth"
    )
    items, sums = across * down * teams, _sums(shape, config)
    if not FEWEST_ITEMS <= items <= min(target.max_work_group, MOST_ITEMS) or sums > _MOST_SUMS:
        return False
    lead = -shape.zeros_before[1] % 4
    fours = -(-(lead + columns - 1 + shape.window[1]) // 4)
    if 4 * fours * rows > _MOST_VALUES or config.integer("parts") > shape.channels:
        return False
    if sums * shape.window[1] > _MOST_CODE:
        return False
    plane = (down * rows + shape.window[0] - 1) * ((across - 1) * columns + 4 * fours)
    line = -(-shape.window[1] * shape.filters // 4) * 4
    held = config.integer("stages") * teams * depth * (plane + shape.window[0] * line)
    passed = (teams - 1) * across * down * rows * columns
    copies = -(-plane // (copied_at_a_time(shape) * items))
    return max(held, passed) <= MOST_FLOATS and copies <= _MOST_COPIES


def copied_at_a_time(shape: Window) -> int:
    """Neighbouring elements of a row of the source."""
    return 1 if shape.size[1] % 4 else 4


@lru_cache(maxsize=1024)
def usual_tile(shape: Window, target: Target) -> Config | None:
    """Return the tile that was quickest on an H200; kept, since a find asks for it several times.

    Where tiles leave units idle, teams share the channels of lower ones, then parts do.
    """
    wanted = _wanted(shape, 2 if copies_past_registers(target) else 1)
    config = next((config for config in wanted if fits(shape, target, config)), None)
    if config is None:
        return None
    is_large = max(shape.window) >= _LARGE
    fewest = int(target.compute_units * (_FEWEST_LARGE_GROUPS if is_large else _FEWEST_GROUPS))
    while (down := config.integer("down")) > 1:
        is_tall = down // 2 * config.integer("rows") >= shape.out[0]
        if not is_tall and (down == 2 or tiles_of(shape, config) >= fewest):
            break
        teams = 2 * config.integer("teams")
        shared = config.replace(down=down // 2, teams=teams, depth=1)
        has_channels = teams <= _MOST_TEAMS and shape.channels >= 4 * teams
        lower = config.replace(down=down // 2)
        if has_channels and fits(shape, target, shared):
            config = shared
        elif is_tall and fits(shape, target, lower):
            config = lower
        else:
            break
    chunks = shape.channels // (_FEWEST_CHANNELS * config.integer("teams"))
    most = max(min(chunks, fewest // tiles_of(shape, config)), 1)
    return config.replace(parts=max(int(parts) for parts in _PARTS.values if int(parts) <= most))


def _wanted(shape: Window, stages: int) -> Iterator[Config]:
    """Yield tiles of one team in order of preference."""
    is_large = max(shape.window) >= _LARGE
    widest = next((int(v) for v in _ACROSS.values if 4 * int(v) >= shape.out[1]), 32)
    for is_straight, rows in product((True, False), (4, 2, 1)):
        # The weights that a step reads are for few sums with one row of results; a loop is better.
        if (is_straight and rows == 1 and is_large) or (rows > 1 and rows > shape.out[0]):
            continue
        across, items = widest, 128
        if is_large:
            across, items = (min(widest, 8), 64) if rows == 4 else (widest, 256)
        for count, depth in product((items, 64, 32), (1,) if is_large else (2, 1)):
            down = min(count // across, 16)
            config = Config(
                rows=rows,
                columns=4,
                across=across,
                down=down,
                teams=1,
                depth=depth,
                stages=stages,
                parts=1,
            )
            if is_rolled(shape, config) is not is_straight:
                yield config


def _sums(shape: Window, config: Config) -> int:
    return config.integer("rows") * config.integer("columns") * shape.filters
