"""The batched matrix product of the GPU solvers: its tiles, how fast they are, and its launch."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.blocks import GpuTile, Grid, TileRate, declarable_memory, round_up
from convfind.problem import ConvProblem
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import BufferArg, Launch, ScalarArg, i64
from convfind.solver.search_space import Constraint
from convfind_solvers_winograd.applicability import multiplies_in_tf32
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.programs import GPU

#: The depth of a sum is a multiple of it, other sizes of `ROW_UNIT`: what is read at a time.
DEPTH_UNIT = 16
ROW_UNIT = 4
#: Channels and filters of split filters: what gpu_product_wgmma.cl reads without a question.
SPLIT_UNIT = 64
#: Local memory that NVIDIA's compiler grants from sm_80 on; the device reports 48 KiB.
_NVIDIA_LOCAL_MEMORY = 96 * 1024
#: Tiles in local memory at a time, of gpu_product_mma.cl.
STAGES = 3


def tensor_core_products(problem: ConvProblem, transform: Transform, axes: int = 2) -> int:
    """Return PRODUCTS of gpu_mma.h: how many make one as precise as the problem wants."""
    return 1 if multiplies_in_tf32(problem, transform, axes) else 3


@dataclass(frozen=True, slots=True)
class Tile(GpuTile):
    """The tile of the product's kernels, which have its parameters as macros."""

    mma: int = 0  # of NVIDIA: 1: tensor cores, 2: Hopper's matrix units, 3: these, filters held

    @property
    def splits(self) -> bool:
        """True if it is for Hopper's matrix units, for which filters are split ahead."""
        return self.mma >= 2

    @property
    def holds(self) -> bool:
        """True if a work-group keeps its filters in local memory: see gpu_product_held.cl."""
        return self.mma == 3

    @property
    def local_bytes(self) -> int:
        """Local memory, at most, of those that are not for Hopper's matrix units."""
        if self.mma:
            return STAGES * 4 * (self.tile_k + 4) * (self.tile_m + self.tile_n)
        return 2 * 4 * (self.tile_k * (self.tile_m + self.tile_n) + 2 * 32)

    def fits(self, target: Target) -> bool:
        """Say whether a device can run it."""
        if self.mma and target.compute_capability < 80:
            return False
        if self.splits:
            return target.arch == "sm_90"
        return self.threads <= target.max_work_group and self.local_bytes <= local_memory(target)


RATES = {
    Tile(64, 64, 16, 8, 8): TileRate(365, 110, 6, 30),
    Tile(64, 128, 16, 8, 16): TileRate(360, 180, 3, 30),
    Tile(128, 64, 16, 16, 8): TileRate(360, 180, 3, 30),
    Tile(256, 128, 16, 16, 16): TileRate(370, 370, 1, 40),
    Tile(64, 32, 16, 8, 8): TileRate(325, 60, 8, 25),
    Tile(32, 64, 16, 8, 8): TileRate(310, 60, 8, 25),
    Tile(32, 32, 16, 8, 8): TileRate(250, 40, 10, 20),
    Tile(64, 64, 16, 16, 8, 1): TileRate(490, 170, 4, 45),
    Tile(128, 64, 16, 32, 8, 1): TileRate(450, 300, 2, 32),
    Tile(64, 128, 16, 16, 16, 1): TileRate(450, 300, 2, 32),
    Tile(128, 128, 32, 32, 8, 2): TileRate(1010, 1010, 1, 62),
    Tile(128, 64, 32, 32, 8, 2): TileRate(800, 800, 1, 45),
    Tile(64, 64, 32, 16, 8, 2): TileRate(805, 400, 3, 55),
    Tile(128, 128, 32, 32, 8, 3): TileRate(1090, 1090, 1, 62),
}
SMALLEST = Tile(32, 32, 16, 8, 8)
PARAMETERS = Tile.parameters(
    RATES,
    {
        "tile_m": "rows of a work-group",
        "tile_n": "columns of a work-group",
        "tile_k": "depth of the tiles in local memory",
        "threads_m": "work-items along the rows",
        "threads_n": "work-items along the columns",
        "mma": "NVIDIA's 1: tensor cores, 2: Hopper's matrix units, 3: filters held",
    },
)


def tiles(target: Target, *, split: bool = False) -> list[Tile]:
    """Return those that a device can run; of Hopper's matrix units where filters may be split."""
    return [tile for tile in RATES if tile.fits(target) and (split or not tile.splits)]


def constraints(target: Target, *, split: bool = False) -> tuple[Constraint, ...]:
    """Return what tiles must fulfil on a device."""
    fitting = tiles(target, split=split)
    return (
        Tile.constraint("tile", RATES.__contains__, "tiles fill registers without spills"),
        Tile.constraint("device", fitting.__contains__, "the device can run it"),
    )


def local_memory(target: Target) -> int:
    """Bytes that a kernel may declare."""
    return declarable_memory(target, _NVIDIA_LOCAL_MEMORY)


@dataclass(frozen=True, slots=True)
class Operand:
    """Matrices one behind the other: elements from row to row of memory, and from one to the next.

    ``along_depth`` says that the rows of memory run along the depth of the sum.
    """

    at: BufferArg
    step: int
    matrix: int
    along_depth: bool


@dataclass(frozen=True, slots=True)
class Product:
    """So many products of ``rows`` x ``depth`` with ``depth`` x ``columns`` elements."""

    matrices: int
    rows: int
    columns: int
    depth: int

    def count(self, tile: Tile) -> int:
        """Tiles of one part."""
        return self.matrices * tile.count(self.rows, self.columns)

    def seconds(self, tile: Tile, parts: int, units: int) -> float:
        """Expected time: whole rounds of work-groups at full speed, then what is left."""
        depth = round_up(self.depth, SPLIT_UNIT) if tile.splits else self.depth
        return RATES[tile].seconds(tile, depth / parts, self.count(tile) * parts, units)

    def best(
        self, target: Target, parts: tuple[int, ...] = (1,), part_seconds: float = 0.0
    ) -> tuple[float, Tile, int]:
        """Return the fewest seconds, and the tile and the number of parts that take them.

        Adding up takes ``part_seconds`` for each part.
        """
        units = target.compute_units
        return min(
            (
                (self.seconds(tile, number, units) + number * part_seconds, tile, number)
                for tile in tiles(target)
                for number in parts
            ),
            key=lambda found: found[0],
        )

    def launch(
        self,
        tile: Tile,
        a: Operand,
        b: Operand,
        c: BufferArg,
        *,
        parts: int = 1,
        add: bool = False,
        columns_first: bool = False,
        products: int = 3,
        spans: int = 0,
        ends: tuple[ScalarArg, ...] = (),
    ) -> Launch:
        """Return ``c = a * b``, or ``c += a * b``; rows of c are filled up to `ROW_UNIT`.

        Each of ``spans`` points along an axis has its own part of the sum: see gpu_spans.h.
        """
        macros: dict[str, DefineValue] = {
            name.upper(): value for name, value in tile.values.items() if name != "mma"
        }
        macros |= {
            "A_ALONG_DEPTH": a.along_depth,
            "B_ALONG_DEPTH": b.along_depth,
            "COLUMNS_FIRST": columns_first,
        }
        if spans:
            macros["SPANS"] = spans
        if tile.mma:
            macros |= {"PRODUCTS": products, "STAGES": STAGES}
        program = GPU.program(f"gpu_product{'_mma' if tile.mma else ''}", macros)
        return Grid(program, "winograd_gpu_product", self.count(tile) * parts, tile.threads)(
            *(a.at, b.at, c),
            *(self.rows, self.columns, self.depth),
            *(a.step, b.step, round_up(self.columns, ROW_UNIT)),
            *map(i64, (a.matrix, b.matrix)),
            *(self.matrices, parts, add),
            *ends,
        )
