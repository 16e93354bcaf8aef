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

    def local_bytes(self, products: int) -> int:
        """Local memory, at most."""
        stages = self.stages * (self.tile_m + self.tile_n) * _ROW_BYTES
        split = 4 * self.tile_n * _ROW_BYTES if products > 1 else 0
        return stages + split + self.tile_m * _BESIDE_ROW + _BESIDE

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


#: Defaults are chosen from these: float32 split (small products in bfloat16, or in TF32), float32
#: as TF32, and types of 16 bits.
RATES: dict[str, dict[MatrixTile, MatrixRate]] = {
    "mixed": {
        MatrixTile(128, 128, 4): MatrixRate(885, 885, 1, 126),
        MatrixTile(128, 64, 4): MatrixRate(620, 620, 1, 91),
        MatrixTile(64, 64, 4): MatrixRate(660, 340, 2, 92),
    },
    "split": {
        MatrixTile(128, 128, 4): MatrixRate(552, 552, 1, 44),
        MatrixTile(128, 64, 4): MatrixRate(406, 406, 1, 42),
        MatrixTile(64, 64, 4): MatrixRate(412, 220, 2, 40),
    },
    "tf32": {
        MatrixTile(128, 256, 4): MatrixRate(2701, 2701, 1, 274),
        MatrixTile(128, 128, 6): MatrixRate(2026, 2026, 1, 234),
        MatrixTile(128, 128, 3): MatrixRate(1747, 1200, 2, 157),
        MatrixTile(64, 128, 4): MatrixRate(1699, 973, 2, 178),
        MatrixTile(128, 64, 4): MatrixRate(1415, 900, 2, 141),
        MatrixTile(64, 64, 4): MatrixRate(1316, 600, 3, 146),
    },
    "narrow": {
        MatrixTile(128, 256, 4): MatrixRate(4647, 4647, 1, 600),
        MatrixTile(128, 128, 4): MatrixRate(3544, 3544, 1, 562),
        MatrixTile(128, 128, 3): MatrixRate(3922, 2900, 2, 520),
        MatrixTile(64, 128, 4): MatrixRate(2985, 1730, 2, 405),
        MatrixTile(128, 64, 4): MatrixRate(2634, 2068, 2, 337),
        MatrixTile(64, 64, 4): MatrixRate(2386, 1000, 3, 305),
    },
}

PARAMETERS = (
    Parameter("tile_m", (64, 128), "positions of a work-group"),
    Parameter("tile_n", (64, 128, 256), "channels of a work-group"),
    Parameter("stages", (3, 4, 5, 6, 8), "tiles in local memory or on their way there"),
)


def constraints(products: int) -> tuple[Constraint, ...]:
    """Return what configs have to fulfil beside fitting local memory."""
    if products == 1:
        return ()
    return (
        Constraint(
            "registers",
            lambda c: c.integer("tile_n") <= c.integer("tile_m"),
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
