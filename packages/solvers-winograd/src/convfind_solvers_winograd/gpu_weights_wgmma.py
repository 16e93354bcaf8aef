"""The weight gradient's products on Hopper's matrix units: their shares, and their launch."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.defines import DefineValue, make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.solution import BufferArg, Launch, i32
from convfind.target import Target
from convfind_solvers_winograd.gpu_product import Tile

#: Tiles of the image that a step of the kernel takes, and steps that stay together.
_STEP, _TOGETHER = 32, 2
#: What rows, columns and the sum are filled up to.
BLOCK_UNIT = 64
#: Small products in bfloat16, of parts cut off, lose less than the rounding of plain sums from
#: these lengths on, for filters of so many taps along an axis.
_SHORTEST = {3: 2048, 5: 4096}


@dataclass(frozen=True, slots=True)
class StreamRate:
    """What a tile reached on an H200 (132 units)."""

    full: int  # GFLOP/s a unit, with every place on it taken
    resident: int  # places
    stages: int  # steps in local memory or on their way there
    around: int  # the begin and the end of a tile take as long as so many products along the sum


STREAM_RATES = {
    Tile(128, 128, 32, 32, 8, 2): StreamRate(980, 1, 4, 64),
    Tile(128, 64, 32, 32, 8, 2): StreamRate(690, 1, 6, 64),
    Tile(64, 64, 32, 16, 8, 2): StreamRate(560, 2, 4, 64),
}


def streams(problem: ConvProblem) -> bool:
    """Say whether split floats are precise enough; where TF32 is allowed, others are quicker."""
    return not problem.allow_tf32 and problem.reduction >= _SHORTEST[problem.filter[0]]


def stream_tiles(problem: ConvProblem, target: Target) -> list[Tile]:
    """Return those that a problem may have on a device."""
    return [tile for tile in STREAM_RATES if streams(problem) and tile.fits(target)]


@dataclass(frozen=True, slots=True)
class Stream:
    """The steps of all tiles of so many products, shared out among the work-groups."""

    tile: Tile
    matrices: int
    rows: int
    columns: int
    depth: int  # filled up to BLOCK_UNIT
    units: int

    @property
    def row_tiles(self) -> int:
        """Tiles along the rows."""
        return -(-self.rows // self.tile.tile_m)

    @property
    def column_tiles(self) -> int:
        """Tiles along the columns."""
        return -(-self.columns // self.tile.tile_n)

    @property
    def count(self) -> int:
        """Tiles of all products."""
        return self.matrices * self.row_tiles * self.column_tiles

    @property
    def pairs(self) -> int:
        """Steps of a tile, by those that stay together."""
        return self.depth // (_STEP * _TOGETHER)

    @property
    def work_groups(self) -> int:
        """As many as run at a time, if there is something for each."""
        return min(self.count * self.pairs, self.units * STREAM_RATES[self.tile].resident)

    @property
    def share(self) -> tuple[int, int]:
        """Pairs of a work-group, and how many work-groups have one more."""
        return divmod(self.count * self.pairs, self.work_groups)

    @property
    def sums_bytes(self) -> int:
        """Bytes of sums: a place for each tile and each work-group's beginning."""
        return 4 * self.tile.tile_m * self.tile.tile_n * (self.count + self.work_groups)

    @property
    def seconds(self) -> float:
        """Expected time."""
        rate = STREAM_RATES[self.tile]
        share, longer = self.share
        steps = share + bool(longer)
        tiles = 1 + steps / self.pairs
        depth = steps * _STEP * _TOGETHER + tiles * rate.around
        flops = 2 * self.tile.tile_m * self.tile.tile_n * depth * rate.resident
        return flops / rate.full * 1e-9

    def launch(
        self, filters: BufferArg, channels: BufferArg, sums: BufferArg, *, add: bool
    ) -> Launch:
        """Return sums of ``filters * channels`` along the tiles of the image."""
        macros: dict[str, DefineValue] = {
            "TILE_M": self.tile.tile_m,
            "TILE_N": self.tile.tile_n,
            "STAGES": STREAM_RATES[self.tile].stages,
        }
        program = Program(
            KernelSource("convfind_solvers_winograd", "kernels/gpu_weights_wgmma.cl"),
            KernelLanguage.OPENCL_C,
            make_defines(macros),
        )
        numbers = (
            *(self.row_tiles, self.column_tiles),
            *(filled(self.rows), filled(self.columns), _TOGETHER * self.pairs),
            *(*self.share, int(add)),
        )
        return Launch(
            KernelSpec(program, "winograd_gpu_product"),
            (filters, channels, sums, *map(i32, numbers)),
            (self.work_groups * self.tile.threads,),
            (self.tile.threads,),
        )


def filled(size: int) -> int:
    """Fill up to `BLOCK_UNIT`."""
    return -(-size // BLOCK_UNIT) * BLOCK_UNIT
