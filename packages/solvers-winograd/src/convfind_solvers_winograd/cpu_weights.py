"""The weight gradient by Winograd on CPUs: everything of a block stays in the cache."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.blocks import NO_EPILOGUE, OUTER, Epilogue, Grid, Limit, parts_within, round_up
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.recipe import Memory, Recipe, i64
from convfind.solver.search_space import Parameter
from convfind.types import Direction
from convfind_solvers_winograd.cpu import ITEMS_PER_CORE, TRANSFORM_COST, VECTOR, CpuSolver
from convfind_solvers_winograd.geometry import count_tiles, geometry

#: Sums of so many points over blocks of 64 x 64 leave room for data in a level-2 cache.
_POINTS_OF_WIDE_BLOCKS = 36


@dataclass(frozen=True, slots=True)
class _Cut:
    """Blocks of filters and channels, and parts of the tiles."""

    filters: int
    channels: int
    parts: int
    share: int  # tiles of a part


class CpuWeightsSolver(CpuSolver):
    """w from x and y. Parts of the sum are added up in a fixed order."""

    direction = Direction.BACKWARD_WEIGHTS

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole register tiles, and transforms, of data anew for each block."""
        shape = geometry(problem)
        rows, vectors = OUTER.of(target)
        config = self.default_config(problem, target)
        channels, filters = round_up(shape.channels, VECTOR), round_up(shape.filters, VECTOR)
        work = round_up(shape.filters, rows) * round_up(shape.channels, vectors * VECTOR)
        anew = channels * -(-shape.filters // config.integer("filters"))
        anew += filters * -(-shape.channels // config.integer("channels"))
        return self.index(problem, target, work + TRANSFORM_COST * anew, problem.traffic)

    def _parameters(self, target: Target) -> tuple[Parameter, ...]:
        return (
            Parameter("tiles", (16, 24, 32, 48, 64), "tiles at a time"),
            Parameter("channels", (32, 64, 128), "block of channels"),
            Parameter("filters", (32, 64, 128), "block of filters"),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Blocks that leave room for each other in a level-2 cache."""
        shape = geometry(problem)
        block = 64 if self.points <= _POINTS_OF_WIDE_BLOCKS else 32
        return Config(
            tiles=24,
            channels=block if shape.channels > 32 else 32,
            filters=block if shape.filters > 32 else 32,
        )

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch that computes, and, where there are parts, one that adds them up."""
        shape = geometry(problem)
        cut = self._cut(problem, target, config, limit)
        rows, vectors = OUTER.of(target)
        program = self.program(
            problem,
            MR=rows,
            VECTORS=vectors,
            TILES=config.integer("tiles"),
            CHANNELS=cut.channels,
            FILTERS=cut.filters,
        )
        workspace = _workspace(problem, cut)
        epilogue = Epilogue.of(problem)
        groups = (
            -(-shape.filters // cut.filters),
            -(-shape.channels // cut.channels),
            shape.groups * cut.parts,
        )
        compute = Grid(program, "winograd_cpu_weights", groups)(
            *(Memory.X, Memory.Y, Memory.WORKSPACE if workspace else Memory.W),
            *(shape.images, shape.groups, shape.channels, shape.filters),
            *(*shape.size, *shape.out, *shape.padding, *shape.dilation),
            *(NO_EPILOGUE if workspace else epilogue).arguments,
            cut.share,
        )
        elements = problem.elements("w")
        add_up = Grid(program, "winograd_cpu_sum", -(-elements // VECTOR))(
            *(Memory.WORKSPACE, Memory.W, cut.parts, i64(elements)),
            *epilogue.arguments,
        )
        steps = (compute, add_up) if workspace else (compute,)
        return Recipe(self.solver_id, steps, workspace=workspace, config=config)

    def _cut(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> _Cut:
        """Parts enough for all cores, of whole blocks of tiles, that fit into the workspace."""
        shape = geometry(problem)
        unit, filters, channels = config.integers("tiles", "filters", "channels")
        items = shape.groups * -(-shape.filters // filters) * -(-shape.channels // channels)
        tiles = count_tiles(shape, self.tile(problem))
        cores = target.compute_units
        parts = 1 if cores == 1 else -(-ITEMS_PER_CORE * cores // items)
        parts = parts_within(limit, parts, problem.nbytes("w"))
        share = -(-tiles // (parts * unit)) * unit
        return _Cut(filters, channels, -(-tiles // share), share)

    def _private_bytes(self, problem: ConvProblem, target: Target, config: Config) -> int:
        tiles, channels, filters = config.integers("tiles", "channels", "filters")
        floats = tiles * (channels + filters) + channels * filters
        return self.points * floats * 4


def _workspace(problem: ConvProblem, cut: _Cut) -> int:
    return cut.parts * problem.nbytes("w") if cut.parts > 1 else 0
