"""One channel a group, stride 1, channels first, on NVIDIA's GPUs: planes by bulk copies."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import UNIT_REGISTERS, register_limit
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Parameter
from convfind_solvers_direct.gpu.conv import PLAIN_FLOAT32, OneLaunch, TileSolver, Work
from convfind_solvers_direct.window import Window, window

_OLDEST = 90  # bulk copies
#: Fewer taps along an axis are bound by memory whatever computes them; more than 4 beside the one
#: in the middle reach past an item's neighbours.
_FEWEST_TAPS, _MOST_TAPS = 5, 9
_REACH = 4
#: Smaller planes are better off as bands of rows.
_SMALLEST = 28 * 28
#: Up to few taps memory is what takes the time. From these up to many, eight rows spill whatever
#: registers an item has; beyond those sums take so long that starting apart gains nothing.
_FEW_TAPS, _MANY_TAPS = 36, 49
#: A work-group's items, and for few taps on small planes the elements of a stage.
_USUAL_ITEMS = 224
_SMALL, _STAGE_OF_SMALL = 32 * 32, 56 * 56
#: NVIDIA's OpenCL runs no larger work-groups.
_MOST_ITEMS = 256
#: A unit's local memory, of which each work-group takes some more than it asks for.
_UNIT_MEMORY, _MEMORY_MORE = 228 * 1024, 1024
#: The registers that an item can make use of.
_MOST_REGISTERS = 128
#: More for an item that adds to old results, where work-groups a unit do not set its limit.
_OLD_REGISTERS = 16
#: Speed beside lines of rows.
_FASTER = 1.1
#: Stages that a unit needs, to have one's copies, sums and stores at a time.
_BUSY = 4
_MOST_STAGES = 2**31 - 1
PLANES = Parameter("planes", (1, 2, 4, 8), "of a stage: of one channel, neighbouring images")
ROWS = Parameter("rows", (7, 8), "of the result of an item")
BUFFERS = Parameter("buffers", (1, 2), "stages of a work-group in local memory")
TEAMS = Parameter("teams", (0, 2, 3, 4, 7), "work-groups of a unit; 0: one a stage")
LEAVE = Parameter("leave", (0, 1), "1: results leave by bulk copies, too")
STAGGER = Parameter("stagger", (0, 800, 1600, 2400), "cycles between starts on a unit")


class StagesConv(OneLaunch, TileSolver):
    """Forward and backward-data.

    A stage is some planes of one channel, of neighbouring images. Work-groups have stages one
    after the other; the last wave that has read one sends for the next. Rows of zeros lie between
    planes, so that nothing is asked about edges, and weights are the same for all items.
    """

    channels_last = False
    domain = replace(PLAIN_FLOAT32, features=frozenset({"nv-ptx"}))
    prefix = "direct-nvidia-stages"
    _file = "nvidia_stages"
    version = 2
    arithmetic_share = 0.52
    is_dynamic = False
    backends = ("opencl", "cuda")
    parameters = (PLANES, ROWS, BUFFERS, TEAMS, LEAVE, STAGGER)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of lines of rows, and a little more; less for idle units."""
        index = super().wti(problem, target)
        assert index is not None
        shape, units = window(problem), max(target.compute_units, 1)
        stages = _stages(shape, self.default_config(problem, target))
        index *= stages / (-(-stages // units) * units) * min(stages / (_BUSY * units), 1.0)
        return max(_FASTER * index, 0.02)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The fastest config on an H200, or the nearest legal one."""
        shape, taps = window(problem), window(problem).taps
        config = _grown(shape, target)
        if taps <= _FEW_TAPS and config.integer("planes") > 1:
            chained = config.replace(teams=4, buffers=2, leave=int(not _is_small(shape)))
            if _fits(shape, target, chained):
                return chained
        at_once = _resident(shape, config, _registers(shape, config)) * target.compute_units
        is_staggered = taps <= _MANY_TAPS and _stages(shape, config) > at_once
        return config.replace(stagger=1600 if is_staggered else 0)

    def fits(self, shape: Window, target: Target, config: Config) -> bool:
        """Return whether work-groups fit a unit's items, registers and local memory."""
        return _fits(shape, target, config)

    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        above, before = shape.zeros_before
        macros = {
            **config.without("teams", "stagger").defines,
            "BEFORE": before,
            "ABOVE": above,
            "HEIGHT": shape.size[0],
            "WIDTH": shape.size[1],
            "ITEMS": _items(shape, config),
            "TOGETHER": _together(shape, config),
            "BETA": int(problem.beta != 0),
        }
        registers = _registers(shape, config)
        if problem.beta != 0 and not config.integer("teams"):
            registers += _OLD_REGISTERS
        units, stages = max(target.compute_units, 1), _stages(shape, config)
        teams = min(config.integer("teams") * units or stages, stages)
        places = _resident(shape, config, registers) * units
        numbers = (
            *(shape.images, shape.groups, stages // shape.groups, teams),
            *(units, places, config.integer("stagger")),
        )
        options = register_limit(target, registers)
        return Work(macros, numbers, teams, _items(shape, config), options)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if target.compute_capability < _OLDEST:
            return Rejected(Reason.ARCHITECTURE, f"is for sm_{_OLDEST} on, not {target.arch}")
        if shape.channels > 1 or shape.filters > 1:
            return Rejected(Reason.CHANNELS, "is for one channel a group")
        above, before = shape.zeros_before
        if min(above, before) < 0 or shape.size != shape.out:
            return Rejected(Reason.PADDING, "source and result must be equally large")
        if min(shape.window) < _FEWEST_TAPS or max(shape.window) > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"is for {_FEWEST_TAPS} to {_MOST_TAPS} taps")
        if max(before, shape.window[1] - 1 - before) > _REACH:
            return Rejected(Reason.FILTER_SIZE, f"taps beyond {_REACH} columns")
        if shape.size[1] % 4:
            return Rejected(Reason.SIZE_LIMIT, "rows must be whole fours")
        if math.prod(shape.size) < _SMALLEST:
            return Rejected(Reason.SIZE_LIMIT, f"planes of fewer than {_SMALLEST} elements")
        one = _alone(shape, target)
        if one is None:
            return Rejected(Reason.SIZE_LIMIT, "a plane does not fit a work-group")
        if _stages(shape, one) * _MOST_ITEMS > _MOST_STAGES:
            return Rejected(Reason.SIZE_LIMIT, "more work-items than are counted in 32 bits")
        return APPLICABLE


def _alone(shape: Window, target: Target) -> Config | None:
    """A plane a work-group, with as few rows behind its last one as there can be."""
    one = Config(planes=1, rows=7, buffers=1, teams=0, leave=0, stagger=0)
    configs = [c for c in (one, one.replace(rows=8)) if _fits(shape, target, c)]
    return min(configs, key=lambda c: _down(shape, c) * c.integer("rows"), default=None)


def _grown(shape: Window, target: Target) -> Config:
    """As many planes a work-group as leave units enough stages, and are of use."""
    config, units = _alone(shape, target), max(target.compute_units, 1)
    assert config is not None
    is_few = shape.taps <= _FEW_TAPS
    most = _STAGE_OF_SMALL if is_few and _is_small(shape) else math.inf
    for planes in (2, 4, 8):
        more = config.replace(planes=planes)
        if not _fits(shape, target, more) or _items(shape, more) > _USUAL_ITEMS:
            break
        if _stages(shape, more) < _BUSY * units or planes * math.prod(shape.size) > most:
            break
        config = more
    return config


def _is_small(shape: Window) -> bool:
    return math.prod(shape.size) <= _SMALL


def _stages(shape: Window, config: Config) -> int:
    return shape.groups * -(-shape.images // config.integer("planes"))


def _down(shape: Window, config: Config) -> int:
    """Items one above the other."""
    return -(-shape.size[0] // config.integer("rows"))


def _items(shape: Window, config: Config) -> int:
    """Items of a work-group, whole waves."""
    busy = config.integer("planes") * (shape.size[1] // 4) * _down(shape, config)
    return -(-busy // 32) * 32


def _local_bytes(shape: Window, config: Config) -> int:
    """Planes with rows of zeros between them, those beside items at the sides, barriers."""
    above, _ = shape.zeros_before
    rows, (height, width) = config.integer("rows"), shape.size
    gap = max(above, shape.window[0] - 1 - above)
    planes = config.integer("buffers") * config.integer("planes")
    lines = gap + planes * (height + gap) + _down(shape, config) * rows - height
    return 4 * ((lines + rows + shape.window[0] - 2) * width + 36) + 256


def _needed_registers(shape: Window, config: Config) -> int:
    """Registers of an item: sums, a row of values, addresses, weights not in uniform ones."""
    taps, more_rows = shape.taps, config.integer("rows") - 7
    return 72 if taps <= _MANY_TAPS else 96 + 8 * more_rows


def _registers(shape: Window, config: Config) -> int:
    """Registers that an item may have, with as many work-groups a unit as wanted."""
    teams = config.integer("teams")
    if not teams:
        return _needed_registers(shape, config)
    return min(UNIT_REGISTERS // (teams * _items(shape, config)) // 8 * 8, _MOST_REGISTERS)


def _resident(shape: Window, config: Config, registers: int) -> int:
    """Work-groups that a unit runs at a time, with so many registers of an item."""
    if teams := config.integer("teams"):
        return teams
    memory = _local_bytes(shape, config) + _MEMORY_MORE
    return min(UNIT_REGISTERS // (_items(shape, config) * registers), _UNIT_MEMORY // memory)


def _fits(shape: Window, target: Target, config: Config) -> bool:
    memory = _local_bytes(shape, config) + _MEMORY_MORE
    spills = config["rows"] == 8 and _FEW_TAPS < shape.taps <= _MANY_TAPS
    return (
        not spills
        and _items(shape, config) <= min(_MOST_ITEMS, target.max_work_group)
        and config.integer("planes") <= max(shape.images, 1)
        and memory * max(config.integer("teams"), 1) <= _UNIT_MEMORY
        and _registers(shape, config) >= _needed_registers(shape, config)
        # Work-groups of one stage have no next one.
        and (config["buffers"] == 1 or config.integer("teams") > 0)
        # Results that leave by copies do not wait for each other.
        and (config["leave"] == 0 or config["stagger"] == 0)
    )


def _together(shape: Window, config: Config) -> int:
    """Return of eight neighbouring items those along a row, in as many banks as there are; 0: all.

    The others are a band of rows below.
    """
    across, rows = shape.size[1] // 4, config.integer("rows")
    for count in (8, 4, 2, 1):
        bands = 8 // count
        places = {(band * rows * across + n) % 8 for band in range(bands) for n in range(count)}
        if across % count == 0 and _down(shape, config) % bands == 0 and len(places) == 8:
            return count
    return 0
