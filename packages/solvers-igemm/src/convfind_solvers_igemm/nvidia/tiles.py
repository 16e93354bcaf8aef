"""`MatrixTile`: the work-groups of the kernels for NVIDIA's matrix units, and how fast they are."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.kit.blocks import ALL_REGISTERS, UNIT_REGISTERS, ProductTile, TileRate
from convfind.solver import Config
from convfind.solver.search_space import Constraint, Parameter

#: Local memory that a kernel may declare on sm_90; the device reports 48 KiB.
LOCAL_MEMORY = 227 * 1024
_ROW_BYTES = 128
#: Rows behind a tile's last position, which taps of a line read: EXTRA_ROWS of nvidia_gather.h.
EXTRA_ROWS = 8
#: With taps of a line that share rows: so many stages are fetched before two lines are through.
_MOST_LINE_STAGES = 4
#: The registers that an item needs beside its sums, with split floats beside two of each.
_BESIDE_SUMS, _BESIDE_PARTS = 48, 64
#: Local memory that each work-group takes beside its own.
_RESERVED = 1024
#: Bytes beside the tiles: for each row of a tile and each column's bias, and for the entries of
#: GATHER_FLAT.
_BESIDE_ROW, _BESIDE_COLUMN = 24, 4
_BESIDE = 512


@dataclass(frozen=True, slots=True)
class MatrixTile(ProductTile):
    """Results of a work-group, and its stages: macros of convfind_nvidia_tile.h."""

    stages: int
    lines: int = 0  # 1: taps along a line share rows

    def config(self, *, has_lines: bool) -> Config:
        """Write a config; that of a problem without taps to share does not mention lines."""
        config = Config(self.values)
        return config if has_lines else config.without("lines")

    @property
    def threads(self) -> int:
        """Items of a work-group."""
        return 2 * self.tile_m

    def local_bytes(self, *, splits: bool, packed: bool) -> int:
        """Local memory, at most, with split floats, the weights split before or by the kernel."""
        rows = 2 * (self.tile_m + EXTRA_ROWS) if self.lines else self.stages * self.tile_m
        rows += self.stages * self.tile_n * (2 if packed else 1)
        if splits and not packed:
            rows += self.tile_n * (4 if self.stages > 2 else 2)
        result = 4 * self.tile_m * self.tile_n
        beside = self.tile_m * _BESIDE_ROW + self.tile_n * _BESIDE_COLUMN + _BESIDE
        return max(rows * _ROW_BYTES, result) + beside

    def registers(self, *, splits: bool) -> int:
        """The most that an item may take, so that a unit has as many work-groups as fit its memory.

        Assemblers take a few more, or not, by chance: with sizes as arguments 162 instead of 128
        halved the work-groups of a unit. Weights are as they come, or split before.
        """
        sums = self.tile_n // 2
        needed = 2 * sums + _BESIDE_PARTS if splits else sums + _BESIDE_SUMS
        memory = self.local_bytes(splits=splits, packed=splits) + _RESERVED
        places = min(LOCAL_MEMORY // memory, UNIT_REGISTERS // (needed * self.threads))
        return min(UNIT_REGISTERS // (max(places, 1) * self.threads) // 8 * 8, ALL_REGISTERS)


#: Defaults are chosen from these: float32 split (small products in bfloat16, or in TF32), the
#: weights by the kernel or when they are packed, float32 as TF32, and types of 16 bits.
RATES: dict[str, dict[MatrixTile, TileRate]] = {
    "mixed": {
        MatrixTile(128, 128, 4): TileRate(929, 490, 1, 182),
        MatrixTile(128, 64, 2): TileRate(838, 479, 2, 133),
        MatrixTile(64, 64, 2): TileRate(689, 283, 4, 72),
    },
    "split": {
        MatrixTile(128, 128, 4): TileRate(552, 552, 1, 44),
        MatrixTile(128, 64, 2): TileRate(530, 300, 2, 42),
        MatrixTile(64, 64, 2): TileRate(480, 240, 4, 28),
    },
    "mixed-packed": {
        MatrixTile(128, 128, 3): TileRate(851, 556, 1, 164),
        MatrixTile(64, 128, 2): TileRate(803, 411, 2, 133),
        MatrixTile(128, 64, 3): TileRate(871, 425, 2, 166),
        MatrixTile(64, 64, 2): TileRate(761, 299, 4, 119),
        MatrixTile(128, 64, 3, 1): TileRate(900, 574, 2, 115),
        MatrixTile(128, 16, 3): TileRate(356, 237, 2, 150),
        MatrixTile(128, 16, 4, 1): TileRate(431, 288, 3, 150),
    },
    "split-packed": {
        MatrixTile(128, 128, 3): TileRate(580, 420, 1, 68),
        MatrixTile(64, 128, 2): TileRate(588, 588, 2, 54),
        MatrixTile(128, 64, 3): TileRate(567, 567, 2, 53),
        MatrixTile(64, 64, 2): TileRate(515, 515, 4, 37),
        MatrixTile(128, 16, 3): TileRate(300, 200, 2, 150),
    },
    "tf32": {
        MatrixTile(128, 256, 4): TileRate(2807, 1871, 1, 324),
        MatrixTile(128, 128, 6): TileRate(2182, 1455, 1, 300),
        MatrixTile(128, 128, 4, 1): TileRate(2528, 2381, 2, 169),
        MatrixTile(64, 128, 4): TileRate(1828, 976, 2, 220),
        MatrixTile(128, 64, 4): TileRate(1507, 1173, 2, 153),
        MatrixTile(128, 64, 4, 1): TileRate(1895, 1683, 3, 122),
        MatrixTile(128, 64, 2): TileRate(1436, 675, 4, 118),
        MatrixTile(64, 64, 2): TileRate(1314, 417, 6, 102),
        MatrixTile(128, 16, 2): TileRate(536, 357, 5, 150),
        MatrixTile(128, 16, 4, 1): TileRate(687, 458, 4, 150),
        MatrixTile(128, 160, 5): TileRate(2700, 1800, 1, 310),
        MatrixTile(128, 96, 4): TileRate(1960, 1370, 2, 270),
        MatrixTile(128, 96, 4, 1): TileRate(2370, 1950, 2, 150),
        MatrixTile(128, 192, 4): TileRate(2600, 1730, 1, 320),
    },
    "narrow": {
        MatrixTile(128, 256, 4): TileRate(5098, 3399, 1, 403),
        MatrixTile(128, 128, 6): TileRate(3845, 2564, 1, 417),
        MatrixTile(128, 128, 4, 1): TileRate(4597, 4222, 2, 272),
        MatrixTile(64, 128, 4): TileRate(3350, 1791, 2, 295),
        MatrixTile(64, 128, 2): TileRate(2748, 1832, 4, 150),
        MatrixTile(128, 64, 4, 1): TileRate(3494, 3085, 3, 190),
        MatrixTile(128, 64, 2): TileRate(2594, 1243, 4, 142),
        MatrixTile(64, 64, 2): TileRate(2420, 756, 6, 160),
        MatrixTile(128, 16, 2): TileRate(1072, 714, 5, 150),
        MatrixTile(128, 16, 4, 1): TileRate(1374, 916, 4, 150),
        MatrixTile(128, 192, 4): TileRate(5000, 3300, 1, 420),
        MatrixTile(128, 192, 4, 1): TileRate(5000, 4500, 1, 300),
    },
}

#: Columns of the tiles for products of few of them.
NARROW = 16


def parameters(columns: int, *, has_lines: bool) -> tuple[Parameter, ...]:
    """Return what configs choose: the narrowest tiles are for products of few columns only."""
    narrow = (NARROW,) if columns <= NARROW else ()
    found = (
        Parameter("tile_m", (64, 128), "positions of a work-group"),
        Parameter("tile_n", (*narrow, 64, 96, 128, 160, 192, 256), "channels of a work-group"),
        Parameter("stages", (2, 3, 4, 5, 6, 8), "tiles in local memory or on their way there"),
    )
    return (*found, Parameter("lines", (0, 1), "1: taps share rows")) if has_lines else found


def constraints(*, splits: bool, packed: bool, size: int) -> tuple[Constraint, ...]:
    """Return what configs have to fulfil beside fitting local memory; ``size``: of an element."""
    if not splits:
        return (
            MatrixTile.constraint(
                *("lines", lambda tile: not tile.lines or tile.stages <= _MOST_LINE_STAGES),
                "rows of two lines are there",
            ),
            MatrixTile.constraint(
                *("rows", lambda t: t.tile_n == NARROW or t.tile_n * size % _ROW_BYTES == 0),
                "rows of results are spread over whole rounds of the banks",
            ),
        )
    return (
        MatrixTile.constraint(
            *("registers", lambda tile: tile.tile_n <= (128 if packed else tile.tile_m)),
            "parts of the sums take as many registers as the sums",
        ),
        MatrixTile.constraint(
            *("columns", lambda t: t.tile_n % 64 == 0 or (packed and t.tile_n == NARROW)),
            "work-items split columns 64 at a time",
        ),
    )
