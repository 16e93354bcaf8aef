"""Fused Winograd convolution on CPUs: transforms and products of some tiles stay in the cache."""

from __future__ import annotations

from convfind.config import Config
from convfind.kernel_spec import KernelSpec
from convfind.problem import ConvProblem
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32, i64
from convfind.target import Target
from convfind.types import DataType, Direction
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.cpu import (
    BEST_SHARE,
    ITEMS_PER_CORE,
    MOST_PRIVATE,
    TRANSFORM_COST,
    VECTOR,
    CpuSolver,
)
from convfind_solvers_winograd.geometry import Geometry, geometry

#: The register tile that fills the registers: 32 of 16 floats, 16 of 8; else 32 of 4.
_REGISTER_TILES = {"x86-64-avx512": (12, 2), "x86-64-avx2": (6, 1)}
_OTHER_REGISTER_TILE = (4, 1)
_TILES = (1, 2, 3, 4, 6, 8)
#: The same of weights that work-items transform.
_WEIGHTS_COST = 8.0
#: Data and sums of a block of tiles: most of a level-2 cache, weights pass by.
_BLOCK_BYTES = 700 << 10


class CpuConvSolver(CpuSolver):
    """Forward, or a data gradient."""

    def __init__(
        self,
        transform: Transform,
        direction: Direction,
        *,
        channels_last: bool,
        packs_ahead: bool = True,
        axes: int = 2,
        dtypes: tuple[DataType, ...] = (DataType.FLOAT32,),
    ) -> None:
        """Take the variant; with ``packs_ahead`` weights are transformed before the run.

        Those that do not have ``-inline`` at the end of their ids: work-items transform weights.
        """
        super().__init__(
            transform, direction, channels_last=channels_last, axes=axes, dtypes=dtypes
        )
        self.packs_ahead = packs_ahead
        if not packs_ahead:
            self.solver_id += "-inline"

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the transformed weights."""
        if not self.packs_ahead:
            return 0
        return self._packed_bytes(geometry(problem), target, self.default_config(problem, target))

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Multiplications saved, times the part of tiles filled, less what transforms cost."""
        shape, tile = geometry(problem), self.tile(problem)
        each_way = TRANSFORM_COST * (1 / shape.filters + 1 / shape.channels)
        tiles = shape.tiles(tile)
        if self.packs_ahead:
            weights = 2 * _WEIGHTS_COST / tiles  # written, and read again
        else:
            weights = _WEIGHTS_COST / min(tiles, self._run(target))
        return BEST_SHARE * self.saved * shape.fill(tile) / (1 + each_way + weights)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Blocks of tiles, channels and filters."""
        rows, vectors = _tile(target)
        return SearchSpace(
            (
                Parameter("tiles", tuple(rows * n for n in _TILES), "tiles at a time"),
                Parameter("channels", (16, 32, 64, 128, 256), "block of the reduction"),
                Parameter("filters", (32, 64, 128, 256), "block of filters"),
            ),
            (
                Constraint(
                    "private memory",
                    lambda config: self._private_bytes(config, vectors) <= MOST_PRIVATE,
                    f"a work-item has {MOST_PRIVATE} bytes",
                ),
            ),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Blocks that leave room for each other in a level-2 cache."""
        shape = geometry(problem)
        rows, _ = _tile(target)
        channels = 64 if shape.channels > 32 else 32 if shape.channels > 16 else 16
        filters = 64 if shape.filters > 32 else 32
        if not self.packs_ahead:
            return Config(tiles=self._run(target), channels=min(channels, 32), filters=filters)
        if shape.filters > 64:
            filters = 128  # data is transformed anew for each block of filters
        most = _BLOCK_BYTES // (self.points * rows * (channels + filters) * 4)
        tiles = rows * max(n for n in _TILES if n <= max(most, 1))
        return Config(tiles=tiles, channels=channels, filters=filters)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch that transforms the weights, if ahead, and one that does all the rest."""
        shape = geometry(problem)
        config = config or self.default_config(problem, target)
        rows, vectors = _tile(target)
        width = vectors * VECTOR
        tiles = shape.tiles(self.tile(problem))
        program = self.program(
            problem,
            PACKED=self.packs_ahead,
            MR=rows,
            VECTORS=vectors,
            TILES=config.integer("tiles"),
            CHANNELS=config.integer("channels"),
            FILTERS=config.integer("filters"),
        )
        weights = (*map(i64, shape.weight_steps), i32(int(shape.flipped)))
        share, strip = self._cut(shape, tiles, config, target.compute_units)
        fused = Launch(
            KernelSpec(program, "winograd_cpu_fused"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.PACKED if self.packs_ahead else Memory.W),
                BufferArg(shape.result),
                *map(i32, (shape.images, shape.groups, shape.channels, shape.filters)),
                *map(i32, (*shape.size, *shape.out, *shape.padding, *shape.dilation)),
                f32(problem.alpha),
                f32(problem.beta),
                i32(share),
                i32(strip),
                *weights,
            ),
            (-(-tiles // share), -(-shape.filters // strip), shape.groups),
            (1, 1, 1),
        )
        if not self.packs_ahead:
            return ConvSolution(self.solver_id, (fused,), config=config)
        pack = Launch(
            KernelSpec(program, "winograd_cpu_pack"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                i32(shape.filters),
                i32(shape.channels),
                *weights,
            ),
            (
                -(-shape.filters // width),
                -(-shape.channels // config.integer("channels")),
                shape.groups,
            ),
            (1, 1, 1),
        )
        return ConvSolution(
            self.solver_id,
            (fused,),
            prepare=(pack,),
            packed=self._packed_bytes(shape, target, config),
            config=config,
        )

    def _run(self, target: Target) -> int:
        """Tiles for which a work-item transforms weights once."""
        return 6 * _tile(target)[0]

    def _cut(self, shape: Geometry, tiles: int, config: Config, cores: int) -> tuple[int, int]:
        """Tiles and filters of a work-item: enough items for all cores, few of them partial."""
        unit, block = config.integer("tiles"), config.integer("filters")
        wanted = 1 if cores == 1 else -(-ITEMS_PER_CORE * cores // shape.groups)
        if tiles >= wanted * unit:
            share = -(-tiles // wanted)
            return -(-share // unit) * unit, -(-shape.filters // block) * block
        runs = -(-tiles // unit)
        strips = min(-(-wanted // runs), -(-shape.filters // 32))
        strip = -(-shape.filters // strips)
        return unit, -(-strip // 32) * 32

    def _packed_bytes(self, shape: Geometry, target: Target, config: Config) -> int:
        width = _tile(target)[1] * VECTOR
        block = config.integer("channels")
        filters = -(-shape.filters // width) * width
        blocks = -(-shape.channels // block)
        return shape.groups * filters * blocks * (block + 1) * self.filter_points * 4

    def _private_bytes(self, config: Config, vectors: int) -> int:
        tiles, channels, filters = (config.integer(n) for n in ("tiles", "channels", "filters"))
        floats = self.points * tiles * (channels + filters)
        if not self.packs_ahead:
            floats += self.filter_points * (channels + 1) * vectors * VECTOR
        return floats * 4


def _tile(target: Target) -> tuple[int, int]:
    """Rows and vectors of the register tile."""
    return _REGISTER_TILES.get(target.arch, _OTHER_REGISTER_TILE)
