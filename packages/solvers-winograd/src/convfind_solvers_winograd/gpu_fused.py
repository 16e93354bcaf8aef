"""Fused Winograd convolution on GPUs: forward and the data gradient."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.blocks import ConfigTile, Epilogue, Grid, Limit, TunableVariant, round_up
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import SearchSpace
from convfind.types import DataType
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu import OneLaunchSolver, index
from convfind_solvers_winograd.gpu_product import local_memory
from convfind_solvers_winograd.gpu_sizes import ConvSizes, filter_launch
from convfind_solvers_winograd.programs import GPU

#: Work-items of a group to which NVIDIA's compiler and AMD's older GPUs give all registers.
_ITEMS_OF_MANY_REGISTERS = 256


@dataclass(frozen=True, slots=True)
class FusedTile(ConfigTile):
    """The tile of a work-group and how its items share it: macros of gpu_fused.h."""

    tiles: int
    filters: int
    channels: int
    block_tiles: int
    block_filters: int
    item_points: int

    def threads(self, transform: Transform) -> int:
        """Items of a work-group."""
        blocks = self.tiles * self.filters // (self.block_tiles * self.block_filters)
        return transform.n**2 // self.item_points * blocks

    def local_bytes(self, transform: Transform) -> int:
        """Local memory with channels last, where it is larger."""
        filters = self.filters // self.block_filters * (2 if self.channels < 4 else 4)
        steps = 2 * self.channels * (self.tiles + 8 + self.filters)
        return 4 * transform.n**2 * max(steps, self.tiles * (filters + 1))

    def fits(self, transform: Transform, target: Target) -> bool:
        """Say whether a device can run it."""
        return self.threads(transform) <= _most_items(target) and (
            self.local_bytes(transform) <= local_memory(target)
        )


def _most_items(target: Target) -> int:
    """Work-items of a group that have all registers they need."""
    # NVIDIA's OpenCL takes registers for so many items, whatever a kernel's work-group is. A unit
    # of AMD's older GPUs has them for four waves; one with matrix cores for eight.
    older_amd = target.is_amd and target.wave_size == 64 and not target.has("mfma")
    if older_amd or target.has("nv-ptx"):
        return min(target.max_work_group, _ITEMS_OF_MANY_REGISTERS)
    return target.max_work_group


#: Tiles of a transform of so many points along an axis, the one expected to be quickest first.
TILES = {
    4: (FusedTile(32, 32, 4, 8, 8, 1), FusedTile(32, 32, 8, 8, 8, 1)),
    6: (FusedTile(32, 32, 2, 4, 8, 3), FusedTile(16, 32, 4, 4, 8, 3)),
}
#: The rate that these reached on an H200, in FLOP/s a unit.
_RATES = {4: 142e9, 6: 94e9}
#: Work before and after the sum takes as long as so many channels of it.
_AROUND = 12
_MEANINGS = {
    "tiles": "tiles of a work-group",
    "filters": "filters of a work-group",
    "channels": "channels of a step",
    "block_tiles": "tiles of a work-item",
    "block_filters": "filters of a work-item",
    "item_points": "points of the transform of a work-item",
}


class FusedSolver(OneLaunchSolver, TunableVariant):
    """A result from a source and the weights; only these are transformed ahead."""

    form = "fused"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the others take, where a tile fits."""
        if not (answer := super().applicability(problem, target)):
            return answer
        if any(tile.fits(self.transform, target) for tile in self._tiles):
            return APPLICABLE
        items = min(tile.threads(self.transform) for tile in self._tiles)
        if items > _most_items(target):
            return Rejected(Reason.WORK_GROUP, f"needs {items} work-items")
        least = min(tile.local_bytes(self.transform) for tile in self._tiles)
        return Rejected(Reason.LOCAL_MEMORY, f"needs {least} bytes")

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of rounds of work-groups."""
        tile = next(t for t in self._tiles if t.fits(self.transform, target))
        sizes = self._sizes(problem)
        rounds = -(-self._blocks(tile, sizes) // target.compute_units)
        depth = round_up(sizes.shape.channels, tile.channels)
        flops = 2 * self.points * tile.tiles * tile.filters * (depth + _AROUND)
        seconds = rounds * flops / _RATES[self.transform.n]
        return index(problem, target, seconds, sizes.packed_bytes, 2)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit."""
        tiles, transform = self._tiles, self.transform
        constraints = (
            FusedTile.constraint("tile", tiles.__contains__, "tiles fill registers"),
            FusedTile.constraint(
                "device", lambda tile: tile.fits(transform, target), "the device can run it"
            ),
        )
        return SearchSpace(FusedTile.parameters(tiles, _MEANINGS), constraints)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The first tile that fits."""
        return Config(next(t.values for t in self._tiles if t.fits(self.transform, target)))

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the weights, and one for all the rest."""
        tile, sizes = FusedTile.of(config), self._sizes(problem)
        shape = sizes.shape
        threads = tile.threads(self.transform)
        epilogue = Epilogue.of(problem)
        groups = self._blocks(tile, sizes)
        fused = Grid(
            self._fused(tile, problem.dtype, epilogue), "winograd_gpu_fused", groups, threads
        )(
            *(shape.source, Memory.PACKED, shape.result),
            *epilogue.arguments,
            *(*sizes.numbers, sizes.channels, sizes.filters),
        )
        return Recipe(
            self.solver_id,
            (fused,),
            prepare=(filter_launch(self._transforms(problem.dtype), sizes),),
            packed=sizes.packed_bytes,
            config=config,
        )

    @staticmethod
    def _blocks(tile: FusedTile, sizes: ConvSizes) -> int:
        shape = sizes.shape
        filters, tiles = -(-shape.filters // tile.filters), -(-sizes.tiles // tile.tiles)
        return shape.groups * filters * tiles

    @property
    def _tiles(self) -> tuple[FusedTile, ...]:
        return TILES[self.transform.n]

    def _fused(self, tile: FusedTile, dtype: DataType, epilogue: Epilogue) -> Program:
        macros = {name.upper(): value for name, value in tile.values.items()}
        return GPU.program(
            f"gpu_fused_f{self.transform.m}x{self.transform.r}",
            macros,
            epilogue.defines,
            CHANNELS_LAST=self.channels_last,
            DTYPE=dtype.upper(),
        )
