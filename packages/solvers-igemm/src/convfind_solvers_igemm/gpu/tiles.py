"""`Tile`: the work-groups of the GPU kernels, how fast they are, and the rule that picks one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from convfind.device.target import Target
from convfind.kit.blocks import GpuTile, TileRate, declarable_memory, parts_in_rounds
from convfind.solver.search_space import Parameter
from convfind.types import DataType

#: Local memory that NVIDIA's compiler grants from sm_80 on; the device reports 48 KiB.
_NVIDIA_LOCAL_MEMORY = 96 * 1024
#: Lanes of a matrix instruction.
_MATRIX_WAVE = 64
#: Bytes beside the tiles for each row and column: offsets, and what the tables hold.
_TABLE_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tile(GpuTile):
    """The tile of convfind_gpu_tile.h, which has its parameters as macros."""

    mfma: int = 0

    @property
    def values(self) -> dict[str, int]:
        """The parameters by name. Devices without matrix instructions do not mention them."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value}

    @property
    def with_matrices(self) -> Tile:
        """The same results and work-items, of which there are whole waves, for matrix instructions.

        The smaller ones are for tiles that are too narrow for the larger ones.
        """
        mfma = 32 if min(self.tile_m, self.tile_n) >= 32 else 16
        return replace(self, threads_m=mfma, threads_n=self.threads // mfma, mfma=mfma)

    @property
    def staged(self) -> int:
        """Elements that an item carries to local memory at a time."""
        return (self.tile_m + self.tile_n) * self.tile_k // self.threads

    @property
    def squeezed(self) -> bool:
        """True if NVIDIA's assembler makes do with 128 registers an item where more are better.

        It then has factors and sums in one bank, which gives one register a clock.
        """
        return self.block[0] * self.block[1] == 64 and self.threads <= 128

    @property
    def crowded(self) -> bool:
        """True if NVIDIA's assembler spills registers to run one more work-group at a time."""
        return self.block[0] * self.block[1] == 32 and self.threads == 128

    @property
    def narrow(self) -> bool:
        """True if it spills some where elements are not floats, or have three axes."""
        return self.block[0] * self.block[1] <= 32 and self.threads == 64

    @property
    def local_bytes(self) -> int:
        """Local memory, at most."""
        tiles = 2 * 4 * (self.tile_k + 4) * (self.tile_m + self.tile_n)
        return tiles + _TABLE_BYTES * (self.tile_m + self.tile_n) + 64 * self.tile_k


#: Work before and after the sum of a tile takes as long as so many of its steps.
_AROUND = 25
#: The tiles that defaults are chosen from.
RATES = {
    Tile(64, 64, 16, 8, 8): TileRate(330, 87, 6, _AROUND),
    Tile(64, 128, 16, 8, 16): TileRate(345, 175, 3, _AROUND),
    Tile(128, 64, 16, 16, 8): TileRate(342, 175, 3, _AROUND),
    Tile(64, 64, 16, 8, 16): TileRate(310, 94, 4, _AROUND),
    Tile(256, 128, 16, 16, 16): TileRate(343, 343, 1, _AROUND),
    Tile(128, 256, 16, 16, 16): TileRate(335, 335, 1, _AROUND),
    Tile(64, 256, 8, 8, 16): TileRate(303, 200, 2, _AROUND),
    Tile(256, 64, 8, 16, 8): TileRate(300, 200, 2, _AROUND),
    Tile(64, 64, 8, 4, 8): TileRate(305, 47, 8, _AROUND),
    Tile(64, 32, 16, 8, 8): TileRate(285, 48, 8, _AROUND),
    Tile(32, 64, 16, 8, 8): TileRate(262, 50, 7, _AROUND),
    Tile(32, 32, 16, 8, 8): TileRate(207, 30, 10, _AROUND),
    Tile(16, 128, 16, 4, 16): TileRate(222, 60, 6, _AROUND),
    Tile(256, 16, 16, 32, 2): TileRate(245, 72, 4, _AROUND),
}
#: Those with matrix instructions. None was measured: the rates rank them as their like without.
MATRIX_RATES = {
    tile.with_matrices: rate for tile, rate in RATES.items() if tile.threads % _MATRIX_WAVE == 0
}
ALL_RATES = RATES | MATRIX_RATES


def _fill_lanes(tile: Tile) -> bool:
    """LANES_M and LANES_N of convfind_gpu_tile.h divide the rows and columns of work-items."""
    if tile.mfma:
        return tile.threads_m % tile.mfma == 0 and tile.threads_n % (_MATRIX_WAVE // tile.mfma) == 0
    return tile.threads_m % (32 // min(tile.threads_n, 8)) == 0


def _has_blocks(tile: Tile) -> bool:
    """A work-item has whole groups of rows and columns, with matrices those of an instruction."""
    if tile.mfma:
        together = tile.mfma * tile.mfma // _MATRIX_WAVE
        return tile.block[0] > 0 and tile.block[1] > 0 and tile.block[1] % together == 0
    return all(size in (4, 8, 16) for size in tile.block)


def _leaves_room(tile: Tile) -> bool:
    """Beside 128 accumulators there is room for little more; compilers spill otherwise."""
    accumulators = tile.block[0] * tile.block[1]
    if accumulators + tile.staged > 160:
        return False
    return accumulators < 128 or tile.tile_k <= 8 or tile.threads >= 256


PARAMETERS = (
    Parameter("tile_m", (16, 32, 64, 128, 256), "rows of a work-group"),
    Parameter("tile_n", (16, 32, 64, 128, 256), "columns of a work-group"),
    Parameter("tile_k", (8, 16), "depth of the tiles in local memory"),
    Parameter("threads_m", (4, 8, 16, 32), "work-items along the rows"),
    Parameter("threads_n", (2, 4, 8, 16, 32), "work-items along the columns"),
)
_MOST_PARTS = 4096
#: Numbers of parts worth trying on any device.
_POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

CONSTRAINTS = (
    Tile.constraint(
        *("block", _has_blocks),
        "a work-item has 4, 8 or 16 rows and columns, or those of whole instructions",
    ),
    Tile.constraint(
        *("accumulators", lambda tile: 16 <= tile.block[0] * tile.block[1] <= 128),
        "more than 128 do not fit the registers",
    ),
    Tile.constraint(
        *("registers", _leaves_room), "what travels to local memory has to fit them, too"
    ),
    Tile.constraint(
        *("threads", lambda tile: 32 <= tile.threads <= 512), "whole waves, and registers for all"
    ),
    Tile.constraint(
        *("lanes", _fill_lanes), "32 neighbouring work-items, with matrices 64, are a rectangle"
    ),
    Tile.constraint(
        *("share", lambda tile: min(tile.tile_m, tile.tile_n) * tile.tile_k >= 4 * tile.threads),
        "every work-item reads four elements or more of both operands",
    ),
)
#: In the search space of problems that `uses_matrices` is true of.
MATRIX_PARAMETER = Parameter(
    "mfma", (0, 16, 32), "rows and columns of matrix instructions; 0: none"
)
_MATRIX_TYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)


def uses_matrices(target: Target, dtype: DataType) -> bool:
    """Say whether the device has matrix instructions for a type."""
    return target.has("mfma") and dtype in _MATRIX_TYPES


def fills_depth(dtype: DataType, tile: Tile) -> bool:
    """Say whether a tile is as deep as its matrix instructions, four numbers to a lane at most."""
    run = 1 if dtype is DataType.FLOAT32 else 4
    return not tile.mfma or tile.tile_k % (run * _MATRIX_WAVE // tile.mfma) == 0


def fits(tile: Tile, target: Target) -> bool:
    """Say whether a device can run a tile, and no wave in part."""
    if tile.threads > target.max_work_group or tile.threads % target.wave_size:
        return False
    return tile.local_bytes <= local_memory(target)


def local_memory(target: Target) -> int:
    """Return the local memory that a kernel may declare."""
    return declarable_memory(target, _NVIDIA_LOCAL_MEMORY)


def fitting(target: Target, dtype: DataType) -> list[Tile]:
    """Return the tiles that defaults for a device are chosen from."""
    tiles = [*(MATRIX_RATES if uses_matrices(target, dtype) else RATES)]
    if dtype is DataType.INT8 and target.is_amd:
        # Sums are not added to as they are multiplied there: products take as many registers.
        tiles = [tile for tile in tiles if tile.block[0] * tile.block[1] < 128]
    return [tile for tile in tiles if fits(tile, target)]


def parts_filling(tile: Tile, groups: int, most: int, units: int) -> list[int]:
    """Return the numbers of parts, up to ``most``, that fill the device in whole rounds, and 1."""
    return parts_in_rounds(groups, ALL_RATES[tile].resident * units, most)


def parts_parameter(groups: Mapping[Tile, int], units: int) -> Parameter:
    """Return the parameter for tiles that make so many work-groups of one part."""
    found = set(_POWERS)
    for tile, count in groups.items():
        found.update(parts_filling(tile, count, _MOST_PARTS, units))
    return Parameter("parts", tuple(sorted(found)), "parts of the sum, computed side by side")
