"""First layers on GPUs, the weight gradient: all taps in the registers of a work-group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from convfind.device.target import Target
from convfind.kit.blocks import (
    ALL_REGISTERS,
    UNIT_REGISTERS,
    Epilogue,
    Grid,
    Limit,
    bytes_of_parts,
    copies_past_registers,
    gpu_index,
    memory_seconds,
    peak_seconds,
    register_limit,
)
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.types import DataType, Direction
from convfind_solvers_direct.gpu.conv import MOST_FLOATS, TileSolver
from convfind_solvers_direct.gpu.first import ONE_GROUP, judge_first_on_gpu
from convfind_solvers_direct.gpu.sum import parts_of_weights, sum_of_parts
from convfind_solvers_direct.programs import GPU
from convfind_solvers_direct.window import Window, window

#: Sums of an item, and items of a work-group: NVIDIA's OpenCL launches no more of this kernel.
_MOST_SUMS, _WANTED_SUMS = 108, 84
_FEWEST_ITEMS, _MOST_ITEMS, _WAVE = 32, 256, 32
_MOST_FILTER_ITEMS = 16
#: Positions of a usual tile.
_MOST_POSITIONS = 224
#: Work that takes as long as an item's copy: sums of all items, and a tile's own. Fitted to 104
#: configs of six layers on an H200, from which it is 13 % off (root mean square).
_SUMS_OF_COPY, _COPIES_OF_TILE = 5.7, 2500
#: Channels last, copies of rows of y of whole 4 KiB in float32 took so many times as long.
_ALIGNED, _ALIGNED_TIMES = 1024, 1.6
#: Floats of local memory of a unit, and registers of an item beside its sums.
_LOCAL_FLOATS, _OTHER_REGISTERS = 54 * 1024, 60
#: Items of a work-group that adds up parts, and those of them that share a result.
_SUM = (256, 32)
_BANDWIDTH_SHARE = 0.825
#: Share of the peak that sums reach, by an item's filters; of the time of memory that they do not
#: hide, by whether copies run on meanwhile; seconds of two launches.
_SHARE = {8: 0.61, 4: 0.59}
_MEMORY_SHARE = {True: 0.5, False: 2.0}
_LAUNCH_SECONDS = 5e-6
#: Patches, whose values meet one tap, by what igemm-nvidia, faster there, expects of itself.
_PATCHES = 1.45

KEPT = Parameter("kept", (4, 8), "filters of an item")
OWN = Parameter("own", (1, 2, 3), "lines of taps of an item")
SHARERS = Parameter("sharers", (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), "items with the same sums")
ROWS = Parameter("rows", (1, 2, 3, 4, 5, 7, 8, 14), "rows of y in local memory")
COLUMNS = Parameter("columns", tuple(range(4, 257, 4)), "columns of y in local memory")
_PARTS = tuple(1 << i for i in range(12))
#: Work-groups that a unit may compute at a time.
_RESIDENT = (1, 2, 3, 4, 5, 6, 8)


@dataclass(frozen=True, slots=True)
class _Blocking:
    """Values derived from a config: counts of items, floats of local memory."""

    filter_items: int
    line_items: int
    items: int
    lead: int
    sums: int  # of an item
    x_lines: int
    x_line: int  # floats of one
    floats: int  # of a tile

    @property
    def resident(self) -> int:
        """Work-groups that a unit computes at a time."""
        registers = self.waves_items * (self.sums + _OTHER_REGISTERS)
        return max(min(UNIT_REGISTERS // registers, _LOCAL_FLOATS // (2 * self.floats)), 1)

    @property
    def registers(self) -> int:
        """Registers that so many work-groups leave an item."""
        return min(UNIT_REGISTERS // (self.resident * self.waves_items) // 8 * 8, ALL_REGISTERS)

    @property
    def waves_items(self) -> int:
        """Items of whole waves."""
        return -(-self.items // _WAVE) * _WAVE


class GpuFirstWeights(TileSolver):
    """Backward-weights in one family of layouts."""

    prefix = "direct-gpu-first"
    direction = Direction.BACKWARD_WEIGHTS
    domain = ONE_GROUP
    is_dynamic = False  # tiles follow the sizes of y
    parameters = (KEPT, OWN, SHARERS, ROWS, COLUMNS)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few channels whose sums fit."""
        answer = judge_first_on_gpu(problem, target, items=_FEWEST_ITEMS, floats=MOST_FLOATS)
        if not answer:
            return answer
        shape = window(problem)
        if not any(self.fits(shape, target, tile) for tile in self._smallest(shape, target)):
            return Rejected(Reason.FILTER_SIZE, "sums do not fit registers or items")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The sums, what they do not hide of moving all tensors once, and the launches."""
        memory = memory_seconds(problem.traffic, target, _BANDWIDTH_SHARE)
        shape = window(problem)
        share = _SHARE[self.default_config(problem, target).integer("kept")]
        needed = (
            peak_seconds(problem.flops, target) / share
            + _MEMORY_SHARE[_runs_on(problem, target)] * memory
        )
        if shape.stride[1] >= shape.window[1]:
            needed *= _PATCHES
        return gpu_index(problem, target, needed + _LAUNCH_SECONDS)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """As many parts as a device computes at a time."""
        shape = window(problem)
        config = _usual(self, shape, target)
        assert config is not None, "asked for a problem that it does not take"
        blocking = self.blocking(shape, config)
        groups = max(blocking.resident // _blocks(shape, config, blocking), 1)
        resident = max(count for count in _RESIDENT if count <= groups)
        return config.replace(parts=resident * target.compute_units)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Shapes of tiles, and parts."""
        space = super().search_space(problem, target)
        filling = {count * target.compute_units for count in _RESIDENT}
        parts = Parameter("parts", tuple(sorted({*_PARTS, *filling})), "parts of the sum")
        return replace(space, parameters=(*space.parameters, parts))

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the parts, and one that adds them up."""
        shape = window(problem)
        blocking = self.blocking(shape, config)
        parts, per_part = parts_of_weights(problem, config, limit, _tiles(shape, config))
        has_parts = parts > 1
        x_width, y_width = self._widths(shape)
        macros = {
            "DTYPE": problem.dtype.upper(),
            **{name: value for name, value in shape.macros.items() if "FILTERS" not in name},
            **config.without("parts").defines,
            "CHANNELS_LAST": self.channels_last,
            "FILTER_ITEMS": blocking.filter_items,
            "LINE_ITEMS": blocking.line_items,
            "LEAD": blocking.lead,
            "X_WIDTH": x_width,
            "Y_WIDTH": y_width,
            "ASYNC": _runs_on(problem, target),
            "SPLIT": has_parts,
        }
        program = GPU.program(
            "gpu_first_weights", macros, options=register_limit(target, blocking.registers)
        )
        groups = _blocks(shape, config, blocking) * parts
        launch = Grid(program, "direct_gpu_first_weights", groups, blocking.items)(
            *(Memory.X, Memory.Y, Memory.WORKSPACE if has_parts else Memory.W),
            *Epilogue.of(problem).arguments,
            *(shape.filters, *shape.size, *shape.out, *shape.padding),
            *(_tiles(shape, config), per_part),
        )
        adding = (sum_of_parts(problem, target, parts, *_SUM),) if has_parts else ()
        workspace = bytes_of_parts(problem, parts)
        return Recipe(self.solver_id, (launch, *adding), workspace=workspace, config=config)

    def blocking(self, shape: Window, config: Config) -> _Blocking:
        """Derive counts and sizes from a config."""
        kept, own, sharers, rows, columns = config.integers(
            "kept", "own", "sharers", "rows", "columns"
        )
        pixel, planes = (shape.channels, 1) if self.channels_last else (1, shape.channels)
        fours = -(-shape.filters // kept)
        filter_items = -(-fours // -(-fours // _MOST_FILTER_ITEMS))
        line_items = -(-planes * shape.window[0] // own)
        lead = -shape.padding[1] * pixel % 4
        runs, block = rows * (columns // 4), kept * filter_items
        in_line = -(-(lead + (3 * shape.stride[1] + shape.window[1]) * pixel) // 4) * 4
        line = (columns // 4 - 1) * 4 * shape.stride[1] * pixel + in_line
        apart = 4 * filter_items % 32 if block % 32 == 0 else 0
        x_lines = planes * shape.span(rows, 0)
        y = runs * (4 * block + apart) if self.channels_last else block * (runs | 1) * 4
        return _Blocking(
            filter_items,
            line_items,
            filter_items * line_items * sharers,
            lead,
            kept * own * shape.window[1] * pixel,
            x_lines,
            line,
            x_lines * line + y,
        )

    def fits(self, shape: Window, target: Target, config: Config) -> bool:
        """Return whether a config's tile fits work-group, registers and local memory."""
        blocking = self.blocking(shape, config)
        return (
            _FEWEST_ITEMS <= blocking.items <= _most_items(target)
            and blocking.sums <= _MOST_SUMS
            and blocking.floats <= MOST_FLOATS
        )

    def wanted(self, shape: Window, target: Target) -> Iterator[Config]:
        """Yield shapes of tiles, best first: those of the most items, whose columns divide rows."""
        columns = _columns(shape)
        for smallest in self._smallest(shape, target):
            tiles = (
                smallest.replace(rows=rows, columns=width)
                for rows in (int(v) for v in ROWS.values if int(v) <= shape.out[0])
                for width in columns
                if rows * width <= _MOST_POSITIONS or rows == 1
            )
            legal = (tile for tile in tiles if self.fits(shape, target, tile))
            yield from sorted(legal, key=lambda tile: self._cost(shape, tile))

    def _smallest(self, shape: Window, target: Target) -> Iterator[Config]:
        """Yield the smallest tiles of all shares of the sums, in the order of `wanted`."""
        columns = _columns(shape)[0]
        lines = shape.window[0] * (1 if self.channels_last else shape.channels)
        for kept, own in product((8, 4), (3, 2, 1)):
            tile = Config(kept=kept, own=own, sharers=1, rows=1, columns=columns, parts=1)
            one = self.blocking(shape, tile)
            if own > 1 and (one.sums > _WANTED_SUMS or lines % own):
                continue
            most = max(_most_items(target) // one.items, 1)
            for sharers in reversed(SHARERS.values):
                if int(sharers) <= most:
                    yield tile.replace(sharers=sharers)

    def _cost(self, shape: Window, config: Config) -> float:
        """The cost of all tiles, in copies of an item."""
        kept, rows, columns, sharers = config.integers("kept", "rows", "columns", "sharers")
        blocking, (x_width, y_width) = self.blocking(shape, config), self._widths(shape)
        runs, block = rows * (columns // 4), kept * blocking.filter_items
        copies: float = _copies(blocking.x_lines, blocking.x_line // x_width)
        if self.channels_last:
            is_aligned = columns * shape.filters % _ALIGNED == 0
            times = _ALIGNED_TIMES if is_aligned else 1.0
            copies += times * _copies(runs, 4 * block // y_width)
        else:
            copies += _copies(block * rows, columns // y_width)
        sums = runs * blocking.items // sharers * blocking.sums
        per_tile = sums / _SUMS_OF_COPY + copies + _COPIES_OF_TILE
        return _tiles(shape, config) * _blocks(shape, config, blocking) * per_tile

    def _widths(self, shape: Window) -> tuple[int, int]:
        """Elements of x, and of y, that are copied at a time: four of lines of whole fours."""
        x_line = shape.size[1] * (shape.channels if self.channels_last else 1)
        y_line = shape.filters if self.channels_last else shape.out[1]
        return 1 if x_line % 4 else 4, 1 if y_line % 4 else 4


def _columns(shape: Window) -> list[int]:
    """Columns of tiles that divide rows evenly, in whole fours; the fewest first."""
    counts = range(1, shape.out[1] // 8 + 2)
    return sorted({-(-shape.out[1] // (4 * count)) * 4 for count in counts})


@lru_cache(maxsize=1024)
def _usual(solver: GpuFirstWeights, shape: Window, target: Target) -> Config | None:
    """The best of the usual tiles; kept, since a find asks for it several times."""
    return next(solver.wanted(shape, target), None)


def _most_items(target: Target) -> int:
    return min(target.max_work_group, _MOST_ITEMS)


def _runs_on(problem: ConvProblem, target: Target) -> bool:
    """Return whether the next tile is copied while one is added."""
    return problem.dtype is DataType.FLOAT32 and copies_past_registers(target)


def _copies(lines: int, width: int) -> int:
    """Copies of items for `lines` of `width` pieces, by teams that are whole (see the kernel)."""
    team = 32 if width > 16 else 16 if width > 8 else 8
    return lines * -(-width // team) * team


def _tiles(shape: Window, config: Config) -> int:
    rows, columns = config.integer("rows"), config.integer("columns")
    return shape.images * -(-shape.out[0] // rows) * -(-shape.out[1] // columns)


def _blocks(shape: Window, config: Config, blocking: _Blocking) -> int:
    return -(-shape.filters // (config.integer("kept") * blocking.filter_items))
