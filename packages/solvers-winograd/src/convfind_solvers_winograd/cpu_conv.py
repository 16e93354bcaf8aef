"""Fused Winograd convolution on CPUs: transforms and products of some tiles stay in the cache."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.blocks import TRANSFORMED, Epilogue, Grid, Limit, round_up
from convfind.kit.pixel_pitch import without_gaps
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.recipe import Memory, Recipe, align, i32
from convfind.solver.search_space import Parameter
from convfind_solvers_winograd.cpu import TRANSFORM_COST, VECTOR, CpuSolver, cut
from convfind_solvers_winograd.geometry import count_tiles, geometry

_TILES = (1, 2, 3, 4, 6, 8)
#: The same of weights that work-items transform.
_WEIGHTS_COST = 8.0
#: Data and sums of a block of tiles: most of a level-2 cache, weights pass by.
_BLOCK_BYTES = 700 << 10


@dataclass(frozen=True, slots=True)
class _Memory:
    """Bytes of transformed weights and of transformed data; its tiles side by side."""

    packed: int
    data: int
    span: int

    @property
    def total(self) -> int:
        """Bytes of the workspace if weights are transformed in the run."""
        return align(self.data) + self.packed if self.packed else self.data


class CpuConvSolver(CpuSolver):
    """Forward, or a data gradient."""

    version = 2
    takes_pitch = True

    #: Weights are transformed before the run; else by each work-item.
    packs_ahead = True

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole vectors, transforms, and memory with the transformed weights.

        Half of these, since a last-level cache keeps some of what has just been written.
        """
        shape = geometry(problem)
        tiles = count_tiles(shape, self.tile(problem))
        width = TRANSFORMED.of(target)[1] * VECTOR
        channels, filters = round_up(shape.channels, VECTOR), round_up(shape.filters, VECTOR)
        runs = tiles if self.packs_ahead else min(tiles, self._run(target))
        work = shape.channels * (round_up(shape.filters, width) + _WEIGHTS_COST * filters / runs)
        work += TRANSFORM_COST * (channels + filters)
        packed = self._memory(problem, target, self.default_config(problem, target), 0).packed
        return self.index(problem, target, work, without_gaps(problem).traffic + packed / 2)

    def _parameters(self, target: Target) -> tuple[Parameter, ...]:
        rows, _ = TRANSFORMED.of(target)
        return (
            Parameter("tiles", tuple(rows * n for n in _TILES), "tiles at a time"),
            Parameter("channels", (16, 32, 64, 128, 256), "block of the reduction"),
            Parameter("filters", (32, 64, 128, 256), "block of filters"),
            Parameter("data_ahead", (0, 1), "data is transformed once, by a launch of its own"),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Blocks that leave room for each other in a level-2 cache."""
        shape = geometry(problem)
        rows, _ = TRANSFORMED.of(target)
        channels = 64 if shape.channels > 32 else 32 if shape.channels > 16 else 16
        filters = 64 if shape.filters > 32 else 32
        run = self._run(target)
        if count_tiles(shape, self.tile(problem)) <= run and shape.filters > 64:
            # Work-items share the tiles: none of them transforms data, and one keeps few sums.
            return Config(tiles=run, channels=channels, filters=32, data_ahead=1)
        if not self.packs_ahead:
            return Config(tiles=run, channels=min(channels, 32), filters=filters, data_ahead=0)
        if shape.filters > 64:
            filters = 128  # data is transformed anew for each block of filters
        most = _BLOCK_BYTES // (self.points * rows * (channels + filters) * 4)
        tiles = rows * max(n for n in _TILES if n <= max(most, 1))
        return Config(tiles=tiles, channels=channels, filters=filters, data_ahead=0)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """Launches that transform weights and data, where that is ahead, and one for the rest."""
        shape = geometry(problem)
        rows, vectors = TRANSFORMED.of(target)
        unit, block = config.integer("tiles"), config.integer("channels")
        tiles = count_tiles(shape, self.tile(problem))
        memory = self._memory(problem, target, config, limit)
        epilogue = Epilogue.of(problem)
        program = self.program(
            problem,
            PACKED=self.packs_ahead,
            DATA_AHEAD=bool(memory.data),
            MR=rows,
            VECTORS=vectors,
            TILES=unit,
            CHANNELS=block,
            FILTERS=config.integer("filters"),
            **epilogue.defines,
        )
        blocks = -(-shape.channels // block)
        sizes = (*map(i32, (*shape.size, *shape.out, *shape.padding, *shape.dilation)),)
        share, strip = unit, config.integer("filters")
        if not config.integer("data_ahead"):
            share, strip = cut(shape, tiles, unit, strip, target.compute_units)
        groups = (-(-tiles // share), -(-shape.filters // strip), shape.groups)
        fused = Grid(program, "winograd_cpu_fused", groups)(
            *(
                Memory.WORKSPACE if memory.data else shape.source,
                Memory.PACKED if self.packs_ahead else Memory.W,
                shape.result,
            ),
            *(shape.images, shape.groups, shape.channels, shape.filters),
            *sizes,
            *epilogue.arguments,
            *(share, strip, memory.span),
            *shape.weight_arguments,
            self.pitch(problem),
        )
        data = Grid(program, "winograd_cpu_data", (-(-tiles // unit), blocks, shape.groups))(
            *(shape.source, Memory.WORKSPACE),
            *(shape.images, shape.groups, shape.channels),
            *sizes,
            memory.span,
        )
        work_groups = (-(-shape.filters // (vectors * VECTOR)), blocks, shape.groups)
        pack = Grid(program, "winograd_cpu_pack", work_groups)(
            *(Memory.W, Memory.PACKED, shape.filters, shape.channels),
            *shape.weight_arguments,
        )
        return Recipe(
            self.solver_id,
            (data, fused) if memory.data else (fused,),
            workspace=memory.data,
            prepare=(pack,) if self.packs_ahead else (),
            packed=memory.packed,
            config=config,
        )

    def _run(self, target: Target) -> int:
        """Tiles for which a work-item transforms weights once."""
        return 6 * TRANSFORMED.of(target)[0]

    def _memory(
        self, problem: ConvProblem, target: Target, config: Config, limit: Limit
    ) -> _Memory:
        """The memory of transforms ahead; data has none where the limit leaves no room."""
        shape = geometry(problem)
        unit, block = config.integer("tiles"), config.integer("channels")
        tiles = count_tiles(shape, self.tile(problem))
        channels = round_up(shape.channels, block)
        packed = 0
        if self.packs_ahead:
            filters = round_up(shape.filters, TRANSFORMED.of(target)[1] * VECTOR)
            places = channels + channels // block
            packed = shape.groups * filters * places * self.filter_points * 4
        span = min(tiles, unit) | 1  # no power of two
        data = -(-tiles // unit) * span * shape.groups * channels * self.points * 4
        with_data = _Memory(packed, data, span)
        if config.integer("data_ahead") and (limit is None or with_data.total <= limit):
            return with_data
        return _Memory(packed, 0, unit)

    def _private_bytes(self, problem: ConvProblem, target: Target, config: Config) -> int:
        tiles, channels, filters = config.integers("tiles", "channels", "filters")
        floats = self.points * tiles * (channels + filters)
        if not self.packs_ahead:
            panel = TRANSFORMED.of(target)[1] * VECTOR
            floats += self.filter_points * (channels + 1) * panel
        return floats * 4


class CpuInlineConvSolver(CpuConvSolver):
    """The same without workspace: each work-item transforms its weights."""

    packs_ahead = False
    form = "inline"
