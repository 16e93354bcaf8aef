"""`MatrixTile`: the work-groups of the kernels for NVIDIA's matrix units, and how fast they are."""

from __future__ import annotations

from dataclasses import dataclass, fields

from convfind.config import Config
from convfind.search_space import Constraint, Parameter

#: Local memory that a kernel may declare on sm_90; the device reports 48 KiB.
LOCAL_MEMORY = 227 * 1024
_ROW_BYTES = 128
#: Bytes beside the tiles: for each row of a tile, and for the entries of GATHER_FLAT.
_BESIDE_ROW = 24
_BESIDE = 512


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """Results of a work-group, and its stages: macros of convfind_nvidia_tile.h."""

    tile_m: int
    tile_n: int
    stages: int

    @classmethod
    def of(cls, config: Config) -> MatrixTile:
        """Read a config."""
        return cls(*(config.integer(field.name) for field in fields(cls)))

    @property
    def values(self) -> dict[str, int]:
        """The parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def threads(self) -> int:
        """Items of a work-group."""
        return 2 * self.tile_m

    def local_bytes(self, *, splits: bool, packed: bool) -> int:
        """Local memory, at most, with split floats, the weights split before or by the kernel."""
        rows = self.stages * (self.tile_m + self.tile_n * (2 if packed else 1))
        if splits and not packed:
            rows += self.tile_n * (4 if self.stages > 2 else 2)
        result = 4 * self.tile_m * self.tile_n
        return max(rows * _ROW_BYTES, result) + self.tile_m * _BESIDE_ROW + _BESIDE

    def count(self, rows: int, columns: int) -> int:
        """Work-groups of a product."""
        return -(-rows // self.tile_m) * -(-columns // self.tile_n)


@dataclass(frozen=True, slots=True)
class MatrixRate:
    """What a tile reached on an H200 (132 units), in GFLOP/s a unit."""

    full: int  # with every place on the unit taken
    single: int  # one work-group alone on its unit
    resident: int  # places
    around: int  # products along the sum that starting and storing take as long as


#: Defaults are chosen from these: float32 split (small products in bfloat16, or in TF32), the
#: weights by the kernel or when they are packed, float32 as TF32, and types of 16 bits.
RATES: dict[str, dict[MatrixTile, MatrixRate]] = {
    "mixed": {
        MatrixTile(128, 128, 4): MatrixRate(929, 490, 1, 182),
        MatrixTile(128, 64, 2): MatrixRate(838, 479, 2, 133),
        MatrixTile(64, 64, 2): MatrixRate(689, 283, 4, 72),
    },
    "split": {
        MatrixTile(128, 128, 4): MatrixRate(552, 552, 1, 44),
        MatrixTile(128, 64, 2): MatrixRate(530, 300, 2, 42),
        MatrixTile(64, 64, 2): MatrixRate(480, 240, 4, 28),
    },
    "mixed-packed": {
        MatrixTile(128, 128, 3): MatrixRate(851, 556, 1, 164),
        MatrixTile(64, 128, 2): MatrixRate(803, 411, 2, 133),
        MatrixTile(128, 64, 3): MatrixRate(871, 425, 2, 166),
        MatrixTile(64, 64, 2): MatrixRate(761, 299, 4, 119),
    },
    "split-packed": {
        MatrixTile(128, 128, 3): MatrixRate(580, 420, 1, 68),
        MatrixTile(64, 128, 2): MatrixRate(588, 588, 2, 54),
        MatrixTile(128, 64, 3): MatrixRate(567, 567, 2, 53),
        MatrixTile(64, 64, 2): MatrixRate(515, 515, 4, 37),
    },
    "tf32": {
        MatrixTile(128, 256, 4): MatrixRate(2797, 1111, 1, 323),
        MatrixTile(128, 128, 6): MatrixRate(2100, 2100, 1, 275),
        MatrixTile(64, 128, 4): MatrixRate(1896, 1017, 2, 230),
        MatrixTile(64, 128, 2): MatrixRate(1497, 1497, 4, 133),
        MatrixTile(128, 64, 4): MatrixRate(1493, 1159, 2, 149),
        MatrixTile(128, 64, 2): MatrixRate(1402, 690, 4, 108),
        MatrixTile(64, 64, 2): MatrixRate(1359, 421, 6, 107),
    },
    "narrow": {
        MatrixTile(128, 256, 4): MatrixRate(5188, 3748, 1, 408),
        MatrixTile(128, 128, 4): MatrixRate(3847, 3847, 1, 431),
        MatrixTile(128, 128, 3): MatrixRate(3686, 2957, 2, 277),
        MatrixTile(64, 128, 4): MatrixRate(3508, 1986, 2, 312),
        MatrixTile(64, 128, 2): MatrixRate(2868, 2868, 4, 164),
        MatrixTile(128, 64, 2): MatrixRate(2648, 1285, 4, 146),
        MatrixTile(64, 64, 2): MatrixRate(2495, 797, 6, 142),
    },
}

PARAMETERS = (
    Parameter("tile_m", (64, 128), "positions of a work-group"),
    Parameter("tile_n", (64, 128, 256), "channels of a work-group"),
    Parameter("stages", (2, 3, 4, 5, 6, 8), "tiles in local memory or on their way there"),
)


def constraints(*, splits: bool, packed: bool) -> tuple[Constraint, ...]:
    """Return what configs have to fulfil beside fitting local memory."""
    if not splits:
        return ()
    return (
        Constraint(
            "registers",
            lambda c: c.integer("tile_n") <= (128 if packed else c.integer("tile_m")),
            "parts of the sums take as many registers as the sums",
        ),
    )


def seconds(tile: MatrixTile, rate: MatrixRate, groups: int, steps: float, units: int) -> float:
    """Expected time of so many work-groups: whole rounds at full speed, then what is left.

    ``steps`` is the length of the sum of each.
    """
    rounds, rest = divmod(-(-groups // units), rate.resident)
    last = rest / min(rest * rate.single, rate.full) if rest else 0.0
    flops = 2 * (steps + rate.around) * tile.tile_m * tile.tile_n
    return flops * (rounds * rate.resident / rate.full + last) * 1e-9
