"""First layers on GPUs: few input channels, all of them in the sum of every result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, gpu_index, has_room, memory_seconds, peak_seconds
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import Parameter
from convfind.types import DataType, Direction
from convfind_solvers_direct.cpu.first import judge_first
from convfind_solvers_direct.gpu.conv import MOST_FLOATS, GpuSolver, TileSolver
from convfind_solvers_direct.programs import GPU
from convfind_solvers_direct.window import Window, window

#: Results of an item, and elements that it copies.
_MOST_RESULTS = 96
_MOST_COPIED = 96
#: Work-groups of a unit under which tiles are smaller.
_FEWEST_GROUPS = 4
#: Items at a time on a unit, and how often runs of tiles fill it at least.
_RESIDENT_ITEMS, _WAVES = 512, 2.5
#: Elements of the next tile that an item holds.
_MOST_AHEAD = 24
_FEWEST_ITEMS, _MOST_ITEMS = 32, 512
#: The shares of the peak that the sums reach, of the bandwidth, and of its time that they show.
_ARITHMETIC_SHARE, _BANDWIDTH_SHARE, _MEMORY_SHARE = 0.7, 0.88, 0.5

ROWS = Parameter("rows", (1, 2, 4, 7, 8), "rows of the result of an item")
COLUMNS = Parameter("columns", (1, 2, 4, 8), "columns of the result of an item")
QUADS = Parameter("quads", (1, 2), "filters of an item, in fours")
FILTER_ITEMS = Parameter("filter_items", (1, 2, 3, 4, 6, 8, 12, 16, 24), "items that share pixels")
ACROSS = Parameter("across", (1, 2, 4, 7, 8, 14, 16, 32), "items along the columns of a tile")
DOWN = Parameter("down", (1, 2, 4, 8), "items along its rows")
RUN = Parameter("run", (1, 2, 4, 8, 16), "tiles of a work-group, one after the other")


@dataclass(frozen=True, slots=True)
class _Tile:
    step: int  # elements from an item's first column to its neighbour's
    lead: int  # elements before the first tap, from a whole four on
    depth: int  # lines of a filter in local memory at a time
    copied: int  # elements of the image that an item copies


#: The domain of solvers for first layers and last ones.
ONE_GROUP = GpuSolver.domain.without(Trait.GROUPS)


def judge_first_on_gpu(
    problem: ConvProblem, target: Target, *, items: int, floats: int
) -> Applicability:
    """Judge few channels on GPUs with so many work-items a group, and floats of local memory."""
    if not (answer := judge_first(problem)):
        return answer
    if not (room := has_room(target, items=items, local_bytes=4 * floats)):
        return room
    shape = window(problem)
    if shape.images * math.prod(shape.out) >= 2**31:
        return Rejected(Reason.SIZE_LIMIT, "positions of all images")
    return APPLICABLE


class GpuFirst(TileSolver):
    """Forward in one family of layouts."""

    prefix = "direct-gpu-first"
    direction = Direction.FORWARD
    domain = ONE_GROUP
    version = 2
    parameters = (ROWS, COLUMNS, QUADS, FILTER_ITEMS, ACROSS, DOWN, RUN)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few channels whose tile fits."""
        answer = judge_first_on_gpu(problem, target, items=_FEWEST_ITEMS, floats=MOST_FLOATS)
        if not answer:
            return answer
        shape = window(problem)
        if _usual_tile(self, shape, target) is None:
            return Rejected(Reason.FILTER_SIZE, "what a tile takes does not fit local memory")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The sums, and all tensors moved once, of which they hide a part."""
        memory = memory_seconds(problem.traffic, target, _BANDWIDTH_SHARE)
        seconds = _MEMORY_SHARE * memory + peak_seconds(problem.flops, target) / _ARITHMETIC_SHARE
        return gpu_index(problem, target, seconds)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Return the first of the usual tiles that fits local memory, or fills the device."""
        shape = window(problem)
        config = _usual_tile(self, shape, target)
        assert config is not None, "asked for a problem that it does not take"
        for name in ("rows", "filter_items"):
            half = config.replace(**{name: max(config.integer(name) // 2, 1)})
            is_small = _groups(shape, config) < _FEWEST_GROUPS * target.compute_units
            if is_small and self.fits(shape, target, half):
                config = half
        if not self.channels_last and shape.stride[1] > 1:
            return config
        resident = target.compute_units * max(_RESIDENT_ITEMS // _items(config), 1)
        longest = max(int(_groups(shape, config) / (_WAVES * resident)), 1)
        return config.replace(run=max(int(run) for run in RUN.values if int(run) <= longest))

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch, no workspace."""
        shape = window(problem)
        is_float = problem.dtype is DataType.FLOAT32
        tile = self._tile(shape, config)
        if self.channels_last:
            stores_four = is_float and shape.filters % 4 == 0
        else:
            stores_four = is_float and config.integer("columns") % 4 == 0
        epilogue = Epilogue.of(problem)
        macros = {
            "DTYPE": problem.dtype.upper(),
            **{name: value for name, value in shape.macros.items() if "FILTERS" not in name},
            **config.without("run").defines,
            "CHANNELS_LAST": self.channels_last,
            "LEAD": tile.lead,
            "DEPTH": tile.depth,
            "AHEAD": config.integer("run") > 1 and tile.copied <= _MOST_AHEAD,
            "STORES_FOUR": stores_four,
        }
        program = GPU.program("gpu_first", macros, epilogue.defines)
        tiles = tiles_of(shape, config)
        blocks = -(-shape.filters // _block(config))
        groups = blocks * -(-tiles // config.integer("run"))
        launch = Grid(program, "direct_gpu_first", groups, _items(config))(
            *(Memory.X, Memory.W, Memory.Y),
            *epilogue.arguments,
            *(shape.filters, *shape.size, *shape.out, *shape.padding),
            *(tiles, config.integer("run")),
        )
        return Recipe(self.solver_id, (launch,), config=config)

    def _tile(self, shape: Window, config: Config) -> _Tile:
        """The part of the image and of the weights in local memory."""
        rows, columns, across, down = config.integers("rows", "columns", "across", "down")
        pixel, planes = (shape.channels, 1) if self.channels_last else (1, shape.channels)
        lead = -shape.padding[1] * pixel % 4
        step = shape.stride[1] * pixel * columns
        fours = -(-(lead + ((columns - 1) * shape.stride[1] + shape.window[1]) * pixel) // 4)
        image = planes * shape.span(down * rows, 0) * ((across - 1) * step + 4 * fours)
        line = shape.window[1] * pixel * (_block(config) + 4)
        lines = planes * shape.window[0]
        depth = min(lines, (MOST_FLOATS - image) // line)
        copied = -(-image // (4 * _items(config))) * 4
        return _Tile(step, lead, depth, copied)

    def fits(self, shape: Window, target: Target, config: Config) -> bool:
        """Return whether a config's tile fits work-group, registers and local memory."""
        if not _FEWEST_ITEMS <= _items(config) <= min(target.max_work_group, _MOST_ITEMS):
            return False
        results = 4 * math.prod(config.integers("rows", "columns", "quads"))
        if results > _MOST_RESULTS:
            return False
        tile = self._tile(shape, config)
        return tile.step % 4 == 0 and tile.depth > 0 and tile.copied <= _MOST_COPIED

    def wanted(self, shape: Window) -> Iterator[Config]:
        """Yield tiles in order of preference, as they were measured on an H200.

        Channels last up to 64 filters share what is copied of the image, and of patches, of which
        no value is read twice, all. Channels first more items along rows write longer lines.
        """
        pixel = shape.channels if self.channels_last else 1
        columns = 4 // math.gcd(4, shape.stride[1] * pixel)
        fours = -(-shape.filters // 4)
        if not self.channels_last:
            rows, shared, down = (2, 4, 4) if columns == 4 else (4, 8, 2)
            yield _config(rows, columns, 1, min(fours, shared), 8, down)
        elif shape.stride[1] >= shape.window[1]:
            yield _config(8, columns, 1, fours, 8, 1)
        elif columns == 1:
            yield _config(2, 2, 2, min(-(-fours // 2), 8), 4, 4)
        else:
            shared = min(fours, 16)
            yield _config(4, columns, 1, shared, 8, max(16 // shared, 1))
        for share, rows, down, across in product((4, 1), (4, 2, 1), (8, 4, 2, 1), (8, 4, 2, 1)):
            yield _config(rows, columns, 1, share, across, down)


@lru_cache(maxsize=1024)
def _usual_tile(solver: GpuFirst, shape: Window, target: Target) -> Config | None:
    """The first of the usual tiles that fits; kept, since a find asks for it several times."""
    wanted = solver.wanted(shape)
    return next((config for config in wanted if solver.fits(shape, target, config)), None)


def _config(
    rows: int, columns: int, quads: int, filter_items: int, across: int, down: int
) -> Config:
    """Return a config of at least as many items that share pixels, as there are values of it."""
    return Config(
        rows=rows,
        columns=columns,
        quads=quads,
        filter_items=min(
            (int(v) for v in FILTER_ITEMS.values if int(v) >= filter_items),
            default=FILTER_ITEMS.values[-1],
        ),
        across=across,
        down=max(int(v) for v in DOWN.values if int(v) <= down),
        run=1,
    )


def tiles_of(shape: Window, config: Config) -> int:
    """Tiles of all images."""
    rows, columns, across, down = config.integers("rows", "columns", "across", "down")
    return shape.images * -(-shape.out[0] // (down * rows)) * -(-shape.out[1] // (across * columns))


def _groups(shape: Window, config: Config) -> int:
    """Count the work-groups that compute one tile each."""
    return tiles_of(shape, config) * -(-shape.filters // _block(config))


def _block(config: Config) -> int:
    """Filters of a work-group."""
    return 4 * config.integer("quads") * config.integer("filter_items")


def _items(config: Config) -> int:
    return math.prod(config.integers("filter_items", "across", "down"))
