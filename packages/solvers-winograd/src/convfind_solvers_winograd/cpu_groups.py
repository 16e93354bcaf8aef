"""Fused Winograd convolution of groups of few channels on CPUs, in vectors of 8 channels."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import (
    OCTET,
    OCTET_ROWS,
    Epilogue,
    Grid,
    Limit,
    has_many_registers,
    judge_octets,
    vectors_of_filters,
)
from convfind.kit.pixel_pitch import without_gaps
from convfind.kit.plane_geometry import PlaneGeometry
from convfind.problem import ConvProblem, Trait
from convfind.solver import Applicability, Config
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import Parameter
from convfind_solvers_winograd.cpu import ITEMS_PER_CORE, CpuSolver
from convfind_solvers_winograd.geometry import count_tiles, geometry

_TILES = (8, 16, 24, 32, 48)
#: Data and sums of a block of tiles: a part of a level-2 cache, where weights lie, too.
_BLOCK_BYTES = 168 << 10
#: The cost of transforms and copies, in products of a channel and a filter.
_TRANSFORM_COST = 5.0
#: The time of the products of a register tile by its vectors of filters, relative to three.
_SHORTER = {3: 1.0, 2: 1.25, 1: 1.1}


class CpuGroupsSolver(CpuSolver):
    """Forward, or a data gradient, channels last, of whole vectors of 8 channels in a group."""

    domain = CpuSolver.domain.without(Trait.DILATION)
    kernels = "_groups"
    form = "groups"
    channels_last = True
    takes_pitch = True

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take groups of few channels and filters, both multiples of 8."""
        answer = super().applicability(problem, target)
        shape = geometry(problem)
        return answer and judge_octets(shape.channels, shape.filters)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products, transforms, and memory with the transformed weights."""
        shape = geometry(problem)
        work = shape.channels * shape.filters + _TRANSFORM_COST * (shape.channels + shape.filters)
        work *= _SHORTER[vectors_of_filters(shape.filters)]
        if has_many_registers(target):
            work *= 2  # half of a register of 16 is used
        return self.index(
            problem, target, work, without_gaps(problem).traffic + self._packed(shape) / 2
        )

    def _parameters(self, target: Target) -> tuple[Parameter, ...]:
        return (Parameter("tiles", _TILES, "tiles at a time"),)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The most tiles that leave room in a level-2 cache, no fewer than a register tile's."""
        configs = [Config(tiles=n) for n in _TILES]
        small = (c for c in configs if self._private_bytes(problem, target, c) <= _BLOCK_BYTES)
        return max(small, key=lambda c: c.integer("tiles"), default=configs[0])

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """A launch that transforms weights before the run, and one for the rest."""
        shape = geometry(problem)
        room = config.integer("tiles")
        vectors = vectors_of_filters(shape.filters)
        epilogue = Epilogue.of(problem)
        program = self.program(
            problem,
            CHANNELS=shape.channels,
            FILTERS=shape.filters,
            MR=OCTET_ROWS[vectors],
            VECTORS=vectors,
            TILES=room,
            **epilogue.defines,
        )
        tiles = count_tiles(shape, self.tile(problem))
        wanted = -(-ITEMS_PER_CORE * target.compute_units // shape.groups)
        share = max(-(-tiles // wanted), room)
        share = -(-share // room) * room
        fused = Grid(program, "winograd_cpu_groups", (-(-tiles // share), 1, shape.groups))(
            *(shape.source, Memory.PACKED, shape.result),
            *(shape.images, shape.groups, *shape.size, *shape.out, *shape.padding),
            *epilogue.arguments,
            *(share, self.pitch(problem)),
        )
        groups = (shape.filters // OCTET, shape.channels // OCTET, shape.groups)
        pack = Grid(program, "winograd_cpu_groups_pack", groups)(
            *(Memory.W, Memory.PACKED),
            *shape.weight_arguments,
        )
        return Recipe(
            self.solver_id,
            (fused,),
            prepare=(pack,),
            packed=self._packed(shape),
            config=config,
        )

    def _packed(self, shape: PlaneGeometry) -> int:
        return shape.groups * shape.channels * shape.filters * self.points * 4

    def _private_bytes(self, problem: ConvProblem, target: Target, config: Config) -> int:
        shape = geometry(problem)
        return self.points * config.integer("tiles") * (shape.channels + shape.filters) * 4
