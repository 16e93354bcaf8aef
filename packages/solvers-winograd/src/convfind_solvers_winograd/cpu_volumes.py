"""Winograd convolution of volumes on CPUs: transformed planes, summed up as channels are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from convfind.device.target import Target
from convfind.kit.blocks import TRANSFORMED, Epilogue, Grid, Limit, round_up
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import Parameter
from convfind.types import Direction
from convfind_solvers_winograd.cpu import TRANSFORM_COST, VECTOR, CpuSolver, cut
from convfind_solvers_winograd.geometry import count_tiles, geometry

_TILES = (2, 3, 4, 6, 8)
_PLANES = (1, 2, 4, 8, 16)
_DEFAULT_PLANES = 8
#: Data and sums of a block: most of a level-2 cache, weights pass by.
_BLOCK_BYTES = 750 << 10
#: Planes beyond the first that a filter reaches: a block has the data of all of them.
_MOST_REACH = 16


@dataclass(frozen=True, slots=True)
class _Depth:
    """Planes of data, of results and of a filter; those before the first element of the data."""

    size: int
    out: int
    taps: int
    dilation: int
    padding: int

    @property
    def more(self) -> int:
        """Planes of data that a run of results needs beside as many as it has."""
        return (self.taps - 1) * self.dilation


class CpuVolumeSolver(CpuSolver):
    """Forward, or a data gradient, in three axes of which the last two are transformed."""

    device = "3d-cpu"
    domain = replace(CpuSolver.domain, ranks=(3,))
    kernels = "_volumes"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take filters of the transform's size in the last two axes, and few planes of them."""
        answer = super().applicability(problem, target)
        if answer and _depth(problem).more > _MOST_REACH:
            return Rejected(
                Reason.FILTER_SIZE, f"is for filters that reach over {_MOST_REACH + 1} planes"
            )
        return answer

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole vectors, transforms, and memory with the transformed weights."""
        shape, depth = geometry(problem), _depth(problem)
        config = self.default_config(problem, target)
        planes = min(config.integer("planes"), depth.out)
        width = TRANSFORMED.of(target)[1] * VECTOR
        channels, filters = round_up(shape.channels, VECTOR), round_up(shape.filters, VECTOR)
        data = channels * (planes + depth.more) / planes
        transforms = TRANSFORM_COST * (data + filters) / depth.taps
        work = shape.channels * round_up(shape.filters, width) + transforms
        packed = self._packed(problem, target, config)
        return self.index(problem, target, work, problem.traffic + packed / 2)

    def _parameters(self, target: Target) -> tuple[Parameter, ...]:
        rows, _ = TRANSFORMED.of(target)
        return (
            Parameter("tiles", tuple(rows * n for n in _TILES), "results of a block"),
            Parameter("planes", _PLANES, "planes of results of a block"),
            Parameter("channels", (16, 32, 64, 128), "block of the reduction"),
            Parameter("filters", (32, 64, 128), "block of filters"),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Blocks that leave room for each other in a level-2 cache."""
        shape, depth = geometry(problem), _depth(problem)
        rows, _ = TRANSFORMED.of(target)
        configs = [
            Config(
                tiles=rows * n,
                planes=max(n for n in _PLANES if n <= min(depth.out, _DEFAULT_PLANES)),
                channels=64 if shape.channels > 32 else 32 if shape.channels > 16 else 16,
                filters=64 if shape.filters > 32 else 32,
            )
            for n in _TILES
        ]
        small = (c for c in configs if self._private_bytes(problem, target, c) <= _BLOCK_BYTES)
        return max(small, key=lambda config: config.integer("tiles"), default=configs[0])

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """A launch that transforms weights before the run, and one for the rest."""
        shape, depth = geometry(problem), _depth(problem)
        rows, vectors = TRANSFORMED.of(target)
        planes, block = config.integer("planes"), config.integer("channels")
        across = _across(config)
        epilogue = Epilogue.of(problem)
        program = self.program(
            problem,
            MR=rows,
            VECTORS=vectors,
            TILES=_results(config, rows),
            SLOTS=_slots(config, depth, rows),
            CHANNELS=block,
            FILTERS=config.integer("filters"),
            **epilogue.defines,
        )
        in_plane = count_tiles(replace(shape, images=1), self.tile(problem))
        blocks = shape.images * -(-depth.out // planes) * -(-in_plane // across)
        share, strip = cut(shape, blocks, 1, config.integer("filters"), target.compute_units)
        groups = (-(-blocks // share), -(-shape.filters // strip), shape.groups)
        fused = Grid(program, "winograd_cpu_volumes", groups)(
            *(shape.source, Memory.PACKED, shape.result),
            *(shape.images, shape.groups, shape.channels, shape.filters),
            *(depth.size, *shape.size, depth.out, *shape.out),
            *(depth.padding, *shape.padding, depth.dilation, *shape.dilation),
            depth.taps,
            *epilogue.arguments,
            *(across, planes, share, strip),
        )
        panels = -(-shape.filters // (vectors * VECTOR))
        work_groups = (panels, -(-shape.channels // block) * depth.taps, shape.groups)
        pack = Grid(program, "winograd_cpu_pack_volumes", work_groups)(
            *(Memory.W, Memory.PACKED),
            *(shape.filters, shape.channels, depth.taps),
            *shape.weight_arguments,
        )
        return Recipe(
            self.solver_id,
            (fused,),
            prepare=(pack,),
            packed=self._packed(problem, target, config),
            config=config,
        )

    def _packed(self, problem: ConvProblem, target: Target, config: Config) -> int:
        shape, block = geometry(problem), config.integer("channels")
        filters = round_up(shape.filters, TRANSFORMED.of(target)[1] * VECTOR)
        places = -(-shape.channels // block) * (block + 1) * _depth(problem).taps
        return shape.groups * filters * places * self.filter_points * 4

    def _private_bytes(self, problem: ConvProblem, target: Target, config: Config) -> int:
        rows, _ = TRANSFORMED.of(target)
        floats = _slots(config, _depth(problem), rows) * config.integer("channels")
        floats += _results(config, rows) * config.integer("filters")
        return self.points * floats * 4


def _depth(problem: ConvProblem) -> _Depth:
    size, out = problem.x_shape[2], problem.y_shape[2]
    taps, dilation, padding = problem.filter[0], problem.dilation[0], problem.padding[0]
    if problem.direction is Direction.BACKWARD_DATA:
        return _Depth(out, size, taps, dilation, (taps - 1) * dilation - padding)
    return _Depth(size, out, taps, dilation, padding)


def _across(config: Config) -> int:
    """Return the tiles of each plane of a block."""
    return max(1, config.integer("tiles") // config.integer("planes"))


def _results(config: Config, rows: int) -> int:
    """Return the tiles of results that a block has room for.

    A product of whole register tiles may begin anywhere and reach behind the last.
    """
    return round_up(_across(config) * config.integer("planes"), rows) + rows


def _slots(config: Config, depth: _Depth, rows: int) -> int:
    """Return the tiles of data that a block has room for."""
    return _across(config) * (config.integer("planes") + depth.more) + rows
