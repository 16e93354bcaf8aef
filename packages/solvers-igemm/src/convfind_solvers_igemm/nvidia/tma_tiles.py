"""`TmaTile`: work-groups of the kernel whose tiles the copy engine fetches, and their speed."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.kit.blocks import (
    ALL_REGISTERS,
    UNIT_REGISTERS,
    ProductTile,
    TileRate,
    ceil_div,
)
from convfind_solvers_igemm.nvidia.form import ROW_BYTES
from convfind_solvers_igemm.nvidia.tiles import EXTRA_ROWS, LOCAL_MEMORY

#: Items of the wave that fetches.
_FETCHING = 32
#: Items of a wave, and parts of a unit, each with a share of its registers.
_WAVE, _PARTS = 32, 4
#: The registers that an item needs beside its sums.
_BESIDE_SUMS = 32
#: Bytes beside the tiles, for each row, column and stage; those that each work-group takes.
_BESIDE_ROW, _BESIDE_COLUMN, _BESIDE_STAGE, _RESERVED = 8, 4, 16, 1024


@dataclass(frozen=True, slots=True)
class TmaTile(ProductTile):
    """Results of a work-group, and how it fetches and stores them: macros of nvidia_tma.cl."""

    stages: int
    line: int = 1  # taps along w that read the same rows
    overlap: int = 0  # 1: work-groups store a tile while they fetch the next one

    @property
    def threads(self) -> int:
        """Items of a work-group."""
        return 2 * self.tile_m + _FETCHING

    def local_bytes(self, result: int) -> int:
        """Local memory, at most; ``result``: bytes of a result."""
        rows = self.tile_m + (EXTRA_ROWS if self.line > 1 else 0)
        stages = self.stages * (rows + self.line * self.tile_n) * ROW_BYTES
        results = self.tile_m * self.tile_n * result
        beside = (
            self.tile_m * _BESIDE_ROW + self.tile_n * _BESIDE_COLUMN + self.stages * _BESIDE_STAGE
        )
        return (stages + results if self.overlap else max(stages, results)) + beside

    def room(self, result: int) -> tuple[int, int]:
        """Return how many work-groups a unit holds, and the most registers an item may then take.

        As many as memory takes, if the sums then fit registers. ``result``: bytes of a result.
        """
        waves, needed = ceil_div(self.threads, _WAVE), self.tile_n // 2 + _BESIDE_SUMS
        for places in range(LOCAL_MEMORY // (self.local_bytes(result) + _RESERVED), 0, -1):
            # Waves are dealt out to four parts of a unit, each with a fourth of the registers.
            dealt = ceil_div(places * waves, _PARTS) * _PARTS * _WAVE
            if (registers := UNIT_REGISTERS // dealt // 8 * 8) >= needed:
                return places, min(registers, ALL_REGISTERS)
        return 0, 0


#: Defaults are chosen from these, floats as TF32 and types of 16 bits, also where another tensor is
#: added; where taps share rows, they were measured with three of them.
RATES: dict[str, dict[TmaTile, TileRate]] = {
    "tf32": {
        TmaTile(256, 64, 3, overlap=1): TileRate(1679, 1679, 1, 132),
        TmaTile(192, 128, 5): TileRate(3552, 3552, 1, 650),
        TmaTile(64, 256, 4, overlap=1): TileRate(3169, 3169, 1, 257),
        TmaTile(192, 64, 3, line=3): TileRate(2954, 2954, 1, 409),
        TmaTile(128, 96, 4, overlap=1): TileRate(2480, 2480, 1, 243),
        TmaTile(128, 64, 2, line=3): TileRate(2474, 1283, 2, 199),
        TmaTile(128, 256, 4): TileRate(3569, 3569, 1, 398),
        TmaTile(128, 96, 3, line=3): TileRate(3099, 3099, 1, 419),
        TmaTile(128, 192, 5): TileRate(3488, 3488, 1, 427),
        TmaTile(64, 256, 5): TileRate(3481, 3481, 1, 467),
        TmaTile(64, 128, 2): TileRate(1698, 1223, 4, 87),
    },
    "narrow": {
        TmaTile(64, 64, 4, overlap=1): TileRate(3043, 2590, 3, 134),
        TmaTile(192, 128, 5): TileRate(6275, 6275, 1, 674),
        TmaTile(64, 256, 4, overlap=1): TileRate(6158, 6158, 1, 333),
        TmaTile(128, 64, 2, line=3, overlap=1): TileRate(4735, 2721, 2, 172),
        TmaTile(64, 128, 3, overlap=1): TileRate(3923, 2941, 2, 123),
        TmaTile(128, 192, 5): TileRate(6800, 6800, 1, 559),
        TmaTile(64, 192, 5): TileRate(5691, 5691, 1, 680),
        TmaTile(128, 256, 4): TileRate(6623, 6623, 1, 516),
        TmaTile(128, 64, 4, overlap=1): TileRate(3217, 3217, 1, 271),
    },
    "tf32-added": {
        TmaTile(64, 64, 4, overlap=1): TileRate(1710, 1040, 2, 199),
        TmaTile(192, 128, 5): TileRate(3336, 3336, 1, 565),
        TmaTile(64, 256, 5): TileRate(3651, 3651, 1, 913),
        TmaTile(128, 64, 2, line=3): TileRate(2816, 1619, 2, 380),
        TmaTile(128, 128, 3): TileRate(3386, 2495, 2, 505),
        TmaTile(64, 128, 3, overlap=1): TileRate(2060, 1617, 2, 263),
        TmaTile(128, 128, 3, line=3): TileRate(3625, 3625, 1, 667),
    },
    "narrow-added": {
        TmaTile(64, 64, 4, overlap=1): TileRate(3919, 2774, 3, 329),
        TmaTile(192, 128, 5): TileRate(6237, 6237, 1, 701),
        TmaTile(64, 128, 3, overlap=1): TileRate(4735, 2904, 2, 387),
        TmaTile(128, 64, 2, line=3, overlap=1): TileRate(4677, 4677, 2, 313),
        TmaTile(128, 128, 3, line=3): TileRate(6672, 6672, 1, 784),
    },
}
