"""The weight gradient's products on Hopper's matrix units: their shares, and their launch."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.blocks import Grid
from convfind.problem import ConvProblem
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import BufferArg, Launch, ScalarArg, i32
from convfind_solvers_winograd.applicability import multiplies_in_tf32
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu_product import Tile
from convfind_solvers_winograd.gpu_weights_cover import Cover
from convfind_solvers_winograd.programs import GPU

#: Tiles of the image that a step of the kernel takes, and steps that stay together.
_STEP, _TOGETHER = 32, 2
#: Rows, columns and the sum are filled up to multiples of these.
BLOCK_UNIT = 64
#: Small products in bfloat16, of parts cut off, lose less than the rounding of plain sums from
#: these lengths on, of F(m, r).
_SHORTEST = {(3, 4): 2048, (3, 5): 4096, (3, 6): 8192, (5, 4): 4096}


@dataclass(frozen=True, slots=True)
class StreamRate:
    """The rate that a tile reached on an H200 (132 units)."""

    full: int  # GFLOP/s a unit, with every place on it taken
    resident: int  # places
    stages: int  # steps in local memory or on their way there


STREAM_RATES = {
    Tile(128, 128, 32, 32, 8, 2): StreamRate(980, 1, 4),
    Tile(128, 64, 32, 32, 8, 2): StreamRate(690, 1, 6),
    Tile(64, 64, 32, 16, 8, 2): StreamRate(560, 2, 4),
}


def stream_tiles(problem: ConvProblem, transform: Transform, target: Target) -> list[Tile]:
    """Return those that a problem may have on a device.

    Split floats must be precise enough; where one product of TF32 is enough, that is quicker.
    """
    is_short = problem.reduction < _SHORTEST[transform.m, transform.r]
    if is_short or multiplies_in_tf32(problem, transform):
        return []
    return [tile for tile in STREAM_RATES if tile.fits(target)]


@dataclass(frozen=True, slots=True)
class Stream:
    """The turns of all tiles of so many products, shared out among the work-groups.

    A tile has one for each pair of steps, and one for its end: see gpu_weights_pairs.h.
    """

    tile: Tile
    cover: Cover  # its regions are filled up to BLOCK_UNIT
    groups: int
    rows: int
    columns: int
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
    def tiles_of_point(self) -> int:
        """Tiles of the products of one point, of all groups."""
        return self.groups * self.row_tiles * self.column_tiles

    @property
    def count(self) -> int:
        """Tiles of all products."""
        return self.cover.transform.n**2 * self.tiles_of_point

    @property
    def turns(self) -> int:
        """Turns of all tiles."""
        pairs = self.cover.products // (_STEP * _TOGETHER)
        return self.tiles_of_point * pairs + self.count

    @property
    def ends(self) -> tuple[ScalarArg, ...]:
        """Ends of the regions of the sum, in pairs."""
        return tuple(i32(end // (_STEP * _TOGETHER)) for end in self.cover.ends)

    @property
    def work_groups(self) -> int:
        """As many as run at a time, if there are steps for each: of two turns one is not an end."""
        return min(self.turns // 2, self.units * STREAM_RATES[self.tile].resident)

    @property
    def share(self) -> tuple[int, int]:
        """Turns of a work-group, and how many work-groups have one more."""
        return divmod(self.turns, self.work_groups)

    @property
    def sums_bytes(self) -> int:
        """Bytes of sums: a place for each tile and each work-group's beginning."""
        return 4 * self.tile.tile_m * self.tile.tile_n * (self.count + self.work_groups)

    @property
    def seconds(self) -> float:
        """Expected time."""
        rate = STREAM_RATES[self.tile]
        share, longer = self.share
        turns = share + bool(longer) + 1  # for the work-group's own end
        depth = turns * _STEP * _TOGETHER
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
            "SIZE": self.cover.transform.n,
        }
        program = GPU.program("gpu_weights_wgmma", macros)
        numbers = (
            *(self.groups, self.row_tiles, self.column_tiles),
            *(filled(self.rows), filled(self.columns)),
            *(*self.share, int(add)),
        )
        return Grid(program, "winograd_gpu_product", self.work_groups, self.tile.threads)(
            *(filters, channels, sums),
            *numbers,
            *self.ends,
        )


def filled(size: int) -> int:
    """Fill up to `BLOCK_UNIT`."""
    return -(-size // BLOCK_UNIT) * BLOCK_UNIT
