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
from convfind.problem import ActivationKind, ConvProblem
from convfind.types import DataType
from convfind_solvers_igemm.nvidia.form import ROW_BYTES
from convfind_solvers_igemm.nvidia.tiles import EXTRA_ROWS, LOCAL_MEMORY

#: Items of a wave, and parts of a unit, each with a share of its registers.
_WAVE, _PARTS = 32, 4
#: Registers that items keep who fetch and give others theirs.
_FEW = 40
#: The registers that an item needs beside its sums: with fewer, items that take turns spill.
_BESIDE_SUMS, _BESIDE_TURNS = 32, 88
#: Bytes beside the tiles, for each row, column, turn and stage; those that each work-group takes.
_BESIDE_ROW, _BESIDE_COLUMN, _BESIDE_TURN, _BESIDE_STAGE, _RESERVED = 8, 4, 8, 16, 1024


@dataclass(frozen=True, slots=True)
class TmaTile(ProductTile):
    """Results of a work-group, and how it fetches and stores them: macros of nvidia_tma.cl."""

    stages: int
    line: int = 1  # taps along w that read the same rows
    overlap: int = 0  # 1: a tile is stored while the next one is fetched; 2: while it is multiplied

    @property
    def turns(self) -> int:
        """Groups of items in a work-group that compute tiles in turn."""
        return max(self.overlap, 1)

    @property
    def threads(self) -> int:
        """Items of a work-group."""
        return self._multiplying + self._fetching

    @property
    def _multiplying(self) -> int:
        return 2 * self.tile_m * self.turns

    @property
    def _fetching(self) -> int:
        """A wave; four, which alone may give registers away, where others need theirs."""
        return (4 if self.turns > 1 else 1) * _WAVE

    def local_bytes(self, result: int) -> int:
        """Local memory, at most; ``result``: bytes of a result."""
        rows = self.tile_m + (EXTRA_ROWS if self.line > 1 else 0)
        stages = self.stages * (rows + self.line * self.tile_n) * ROW_BYTES
        results = self.tile_m * self.tile_n * result * self.turns
        beside = self.tile_m * _BESIDE_ROW + self.tile_n * _BESIDE_COLUMN + _BESIDE_TURN
        beside = self.turns * beside + self.stages * _BESIDE_STAGE
        return (stages + results if self.overlap else max(stages, results)) + beside

    def room(self, result: int) -> tuple[int, int]:
        """Return how many work-groups a unit holds, and the most registers an item may then take.

        As many as memory takes, if the sums then fit registers. ``result``: bytes of a result.
        """
        waves = ceil_div(self.threads, _WAVE)
        needed = self.tile_n // 2 + (_BESIDE_TURNS if self.turns > 1 else _BESIDE_SUMS)
        for places in range(LOCAL_MEMORY // (self.local_bytes(result) + _RESERVED), 0, -1):
            # Waves are dealt out to four parts of a unit, each with a fourth of the registers.
            dealt = ceil_div(places * waves, _PARTS) * _PARTS * _WAVE
            registers = most = min(UNIT_REGISTERS // dealt // 8 * 8, ALL_REGISTERS)
            if self.turns > 1:
                given = registers * self.threads - _FEW * self._fetching
                most = given // self._multiplying // 8 * 8
            if most >= needed:
                return places, registers
        return 0, 0


#: Activations of a few instructions, which stores hide.
_SHORT = frozenset(
    {
        *(ActivationKind.RELU, ActivationKind.LEAKY, ActivationKind.CLIP, ActivationKind.ABS),
        *(ActivationKind.HARD_SWISH, ActivationKind.HARD_SIGMOID),
    }
)


def kind_of(problem: ConvProblem) -> str:
    """Return the kind of problem by which tiles were measured."""
    kind = "tf32" if problem.dtype is DataType.FLOAT32 else "narrow"
    if problem.add:
        return f"{kind}-added"
    is_long = problem.activation is not None and problem.activation.kind not in _SHORT
    return f"{kind}-computed" if is_long else kind


#: Defaults are chosen from these, floats as TF32 and types of 16 bits, also where another tensor is
#: added, and where an activation takes as long as the products of short sums (GELU); where taps
#: share rows, they were measured with three of them.
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
        TmaTile(64, 128, 6, overlap=2): TileRate(2478, 2478, 1, 142),
        TmaTile(64, 192, 3, overlap=2): TileRate(1587, 1587, 1, 96),
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
        TmaTile(64, 192, 5, overlap=2): TileRate(5645, 5645, 1, 211),
        TmaTile(192, 64, 4, overlap=1): TileRate(3400, 3400, 1, 132),
        TmaTile(256, 64, 2, overlap=1): TileRate(3400, 3400, 1, 132),
    },
    "tf32-added": {
        TmaTile(64, 64, 4, overlap=1): TileRate(1710, 1040, 2, 199),
        TmaTile(192, 128, 5): TileRate(3336, 3336, 1, 565),
        TmaTile(64, 256, 5): TileRate(3651, 3651, 1, 913),
        TmaTile(128, 64, 2, line=3): TileRate(2816, 1619, 2, 380),
        TmaTile(128, 128, 3): TileRate(3386, 2495, 2, 505),
        TmaTile(64, 128, 3, overlap=1): TileRate(2060, 1617, 2, 263),
        TmaTile(128, 128, 3, line=3): TileRate(3625, 3625, 1, 667),
        TmaTile(64, 128, 6, overlap=2): TileRate(2128, 2128, 1, 263),
        TmaTile(64, 96, 5, overlap=2): TileRate(1642, 1642, 1, 174),
    },
    "narrow-added": {
        TmaTile(64, 64, 4, overlap=1): TileRate(3919, 2774, 3, 329),
        TmaTile(192, 128, 5): TileRate(6237, 6237, 1, 701),
        TmaTile(64, 128, 3, overlap=1): TileRate(4735, 2904, 2, 387),
        TmaTile(128, 64, 2, line=3, overlap=1): TileRate(4677, 4677, 2, 313),
        TmaTile(128, 128, 3, line=3): TileRate(6672, 6672, 1, 784),
        TmaTile(64, 192, 5, overlap=2): TileRate(4704, 4704, 1, 394),
        TmaTile(64, 128, 4, overlap=2): TileRate(4446, 4446, 1, 345),
        TmaTile(64, 128, 6, overlap=2): TileRate(4852, 4852, 1, 399),
        TmaTile(192, 64, 4, overlap=1): TileRate(3400, 3400, 1, 250),
        TmaTile(256, 64, 2, overlap=1): TileRate(3400, 3400, 1, 250),
    },
    "tf32-computed": {
        TmaTile(128, 128, 3): TileRate(2938, 2742, 2, 442),
        TmaTile(64, 64, 4, overlap=1): TileRate(1468, 930, 2, 192),
        TmaTile(192, 128, 5): TileRate(3222, 3222, 1, 587),
        TmaTile(128, 96, 4, overlap=1): TileRate(2084, 2084, 1, 304),
        TmaTile(64, 128, 2): TileRate(1704, 937, 4, 207),
        TmaTile(64, 128, 6, overlap=2): TileRate(1988, 1988, 1, 279),
    },
    "narrow-computed": {
        TmaTile(64, 128, 6, overlap=2): TileRate(3960, 3960, 1, 425),
        TmaTile(64, 64, 4, overlap=1): TileRate(3114, 1038, 3, 352),
        TmaTile(192, 128, 5): TileRate(6480, 6480, 1, 944),
        TmaTile(64, 256, 4, overlap=1): TileRate(5492, 5492, 1, 1150),
        TmaTile(64, 192, 5): TileRate(5123, 5123, 1, 1203),
        TmaTile(128, 192, 5): TileRate(6265, 6265, 1, 849),
        TmaTile(64, 128, 3, overlap=1): TileRate(4099, 2596, 2, 428),
    },
}
