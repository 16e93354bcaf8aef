"""The GEMM kernel for GPUs: its tiles, their speed, and the rule that picks one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.gemm_lowering.product import Gemm
from convfind.kit.gpu_tile import GpuTile, TileRate, declarable_memory
from convfind.kit.sizes import ceil_div
from convfind.kit.throughput import fill
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import Launch
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind_backend_opencl.gemm.kernel import GemmKernel, kernel_source, product_macros

#: Local memory that NVIDIA's compiler grants from sm_80 on; the device reports 48 KiB.
_NVIDIA_LOCAL_MEMORY = 64 * 1024
#: FLOP that a GPU does while it moves a byte, and how often each byte of the columns is moved.
_BALANCE, _TIMES_MOVED = 15, 3
#: Share of the peak of a large product.
_BEST_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Tile(GpuTile):
    """The config of the kernel: see the macros of the same names in gemm_gpu.cl."""

    straight: int = 1

    @property
    def config(self) -> Config:
        """The tile as a config."""
        return Config(self.values)

    @property
    def local_bytes(self) -> int:
        """Local memory with both operands padded; some transposes need less."""
        floats = self.tile_k * (self.tile_m + self.tile_n) + self.tile_k // 2 * 128 // self.tile_k
        return 2 * 4 * floats

    def groups(self, gemm: Gemm) -> int:
        """Work-groups of a product."""
        return self.count(gemm.m, gemm.n) * gemm.batch


_RATES = {
    Tile(128, 256, 16, 16, 16): TileRate(379, 360, 1),
    Tile(128, 128, 16, 16, 8): TileRate(368, 217, 2),
    Tile(64, 128, 16, 8, 16): TileRate(348, 259, 3),
    Tile(128, 64, 16, 16, 8): TileRate(329, 213, 3),
    Tile(64, 64, 16, 8, 8): TileRate(324, 112, 6),
    Tile(64, 64, 16, 8, 16): TileRate(314, 174, 5),
    Tile(64, 32, 16, 8, 8): TileRate(255, 74, 8),
    Tile(32, 64, 16, 8, 8): TileRate(265, 99, 8),
    Tile(32, 32, 16, 8, 8): TileRate(206, 57, 12),
}

#: Spills on an H200 where neither operand is transposed.
_CROWDED = Tile(128, 128, 16, 16, 8)
#: The tiles that defaults are chosen from.
MEASURED_TILES = tuple(_RATES)

_VALUES: dict[str, tuple[int, ...]] = {
    "tile_m": (32, 64, 128, 256),
    "tile_n": (32, 64, 128, 256),
    "tile_k": (8, 16, 32),
    "threads_m": (8, 16, 32),
    "threads_n": (8, 16, 32),
    "straight": (0, 1),
}
_MEANINGS = {
    "tile_m": "rows of C of a work-group",
    "tile_n": "columns of C of a work-group",
    "tile_k": "depth of the tiles in local memory",
    "threads_m": "work-items along the rows",
    "threads_n": "work-items along the columns",
    "straight": "1: no condition in the loop over K",
}
_CONSTRAINTS = (
    Constraint(
        "block_m",
        lambda c: (
            Tile.of(c).block[0] in (4, 8, 12, 16)
            and Tile.of(c).tile_m % (4 * c.integer("threads_m")) == 0
        ),
        "a work-item has 4, 8, 12 or 16 rows",
    ),
    Constraint(
        "block_n",
        lambda c: (
            Tile.of(c).block[1] in (4, 8, 12, 16)
            and Tile.of(c).tile_n % (4 * c.integer("threads_n")) == 0
        ),
        "a work-item has 4, 8, 12 or 16 columns",
    ),
    Constraint(
        "accumulators",
        lambda c: math.prod(Tile.of(c).block) <= 128,
        "more than 128 do not fit the registers",
    ),
    Constraint(
        "share_a",
        lambda c: c.integer("tile_m") * c.integer("tile_k") % (4 * Tile.of(c).threads) == 0,
        "work-items share the tile of A evenly",
    ),
    Constraint(
        "share_b",
        lambda c: c.integer("tile_n") * c.integer("tile_k") % (4 * Tile.of(c).threads) == 0,
        "work-items share the tile of B evenly",
    ),
)


class GpuGemm(GemmKernel):
    """gemm_gpu.cl."""

    shortest = 256

    def search_space(self, target: Target) -> SearchSpace:
        """Tiles that fit registers, local memory and work-group size."""
        limit = target.max_work_group
        threads = Constraint(
            "threads", lambda c: Tile.of(c).threads <= limit, f"the device allows {limit}"
        )
        return SearchSpace(
            tuple(Parameter(name, values, _MEANINGS[name]) for name, values in _VALUES.items()),
            (*_CONSTRAINTS, threads),
            lambda config: Tile.of(config).local_bytes,
            local_memory(target),
        )

    def default_config(self, gemm: Gemm, target: Target) -> Config:
        """The measured tile that `_time` expects the least of."""
        fitting = [
            tile
            for tile in MEASURED_TILES
            if fits(tile, target) and (tile != _CROWDED or gemm.trans_a or gemm.trans_b)
        ]
        return min(fitting, key=lambda tile: _time(gemm, tile, target.compute_units)).config

    def program(self, gemm: Gemm, config: Config) -> Program:
        """gemm_gpu.cl for the product's transposes."""
        return Program(
            kernel_source("gemm_gpu"),
            defines=make_defines(
                Tile.of(config).config.defines,
                product_macros(gemm),
            ),
        )

    def index(self, problem: ConvProblem, target: Target, gemm: Gemm, column_bytes: int) -> float:
        """The share of time that arithmetic takes, times the part of the tiles that is filled."""
        filled = fill(gemm.m, 8) * fill(gemm.n, 32)
        moved = problem.traffic + _TIMES_MOVED * column_bytes
        busy = problem.flops / (problem.flops + _BALANCE * moved)
        return max(_BEST_SHARE * filled * busy, 0.02)

    def launch(self, gemm: Gemm, target: Target, config: Config) -> Launch:
        """A work-group for each tile of C."""
        tile = Tile.of(config)
        return Launch(
            KernelSpec(self.program(gemm, config), "gemm_gpu"),
            gemm.arguments,
            (tile.groups(gemm) * tile.threads,),
            (tile.threads,),
        )

    def missing_parts(self, gemm: Gemm, target: Target, config: Config) -> int:
        """Two work-groups a unit hide each other's waiting."""
        return ceil_div(2 * target.compute_units, Tile.of(config).groups(gemm))


def local_memory(target: Target) -> int:
    """Return the local memory that a kernel may declare."""
    return declarable_memory(target, _NVIDIA_LOCAL_MEMORY)


def fits(tile: Tile, target: Target) -> bool:
    """Say whether a device can run a tile."""
    return tile.threads <= target.max_work_group and tile.local_bytes <= local_memory(target)


def smallest_tile() -> Tile:
    """Return the measured tile that asks least of a device."""
    return min(MEASURED_TILES, key=lambda tile: (tile.threads, tile.local_bytes))


def _time(gemm: Gemm, tile: Tile, units: int) -> float:
    """Relative time of the busiest unit."""
    each = gemm.k * tile.tile_m * tile.tile_n
    return each * _RATES[tile].busy(tile.groups(gemm), units)
