"""First layers on CPUs: the weight gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, even_parts, fill, has_many_registers, parts_within
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_direct.cpu.first import judge_first
from convfind_solvers_direct.cpu.solver import VECTOR, CpuSolver, items_wanted, program_of
from convfind_solvers_direct.window import Window, window

#: Room for copied rows of x and for a tile of y, in floats.
_STRIP_FLOATS, _TILE_FLOATS = 16384, 8192
#: The bytes that rows of several bands should take, to be fetched from the level-1 cache.
_ROOM = 8192


@dataclass(frozen=True, slots=True)
class _Registers:
    """The room in registers, in vectors of 16 floats."""

    most_sums: int
    most: int  # sums and the filters that they are made of
    least_sums: int  # whose additions do not wait for each other
    tile_floats: int  # of y, which is read again for the next sums


#: For 32 registers of 16 floats, and for 16 of 8: there y must stay in the level-1 cache.
_MANY, _FEW = _Registers(28, 32, 8, _TILE_FLOATS), _Registers(6, 7, 4, _TILE_FLOATS // 2)
#: The share of the peak that leaves edges and sums of tiles out, channels last and first.
_LAST_SHARE, _FIRST_SHARE = 0.85, 0.6


@dataclass(frozen=True, slots=True)
class _Tile:
    """Sums in registers, vectors of filters by taps; the rows and columns of y that they take."""

    vectors: int
    taps: int
    band: int
    high: int
    wide: int


class CpuFirstWeights(CpuSolver):
    """w from x and y: sums of parts, added up by a second launch in a fixed order."""

    prefix = "direct-cpu-first"
    direction = Direction.BACKWARD_WEIGHTS
    domain = CpuSolver.domain.without(Trait.GROUPS)
    version = 2

    def __init__(self, *, channels_last: bool) -> None:
        super().__init__(channels_last=channels_last)
        if not channels_last:
            self.version = 1  # type: ignore[misc]  # version 2 fetches channels last ahead

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few channels."""
        if not (answer := judge_first(problem)):
            return answer
        shape = window(problem)
        if self._strip_floats(shape, 1) > _STRIP_FLOATS:
            return Rejected(Reason.SIZE_LIMIT, "rows that a result takes do not fit the cache")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole tiles, and memory."""
        shape = window(problem)
        tile = self._tile(shape, has_many_registers(target))
        line = shape.window[1] * (shape.channels if self.channels_last else 1)
        best = _LAST_SHARE if self.channels_last else _FIRST_SHARE
        filled = fill(shape.filters, tile.vectors * VECTOR) * fill(line, tile.taps)
        products = problem.flops / (best * filled)
        return self.first_layer_index(problem, target, products)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch for the parts, and one that adds them up."""
        shape = window(problem)
        tile = self._tile(shape, has_many_registers(target))
        block = tile.vectors * VECTOR
        blocks = -(-shape.filters // block)
        parts, share = self._parts(shape, target, limit)
        program = program_of(
            "cpu_first_weights",
            replace(shape, filters=1),
            CHANNELS_LAST=self.channels_last,
            STAGED=not self.channels_last or shape.filters % block > 0,
            VECTORS=tile.vectors,
            TAPS_AT_ONCE=tile.taps,
            STRIP_FLOATS=_STRIP_FLOATS,
            TILE_FLOATS=_TILE_FLOATS,
        )
        sums = Grid(program, "direct_cpu_first_weights", parts)(
            *(Memory.X, Memory.Y, Memory.WORKSPACE),
            *(shape.images, shape.filters, *shape.size, *shape.out, *shape.padding),
            *(share, tile.band, tile.high, tile.wide, self._pitch(shape)),
        )
        lines = shape.window[0] * (1 if self.channels_last else shape.channels)
        add_up = Grid(program, "direct_cpu_first_sum", (blocks, lines))(
            *(Memory.WORKSPACE, Memory.W),
            *Epilogue.of(problem).arguments,
            *(shape.filters, parts),
        )
        workspace = parts * self._part_bytes(shape, target)
        return Recipe(self.solver_id, (sums, add_up), workspace=workspace)

    def _registers(self, shape: Window, many_registers: bool) -> tuple[int, int]:
        """Vectors of filters and taps at a time, such that the fewest instructions are spent."""
        limits = _MANY if many_registers else _FEW
        line = shape.window[1] * (shape.channels if self.channels_last else 1)
        filters = -(-shape.filters // VECTOR)

        def cost(tile: tuple[int, int]) -> tuple[int, int]:
            vectors, taps = tile
            passes = -(-filters // vectors) * -(-line // taps)
            return passes * max(vectors * taps, limits.least_sums), passes * (vectors + taps)

        return min(
            (
                (vectors, -(-line // passes))
                for vectors in range(1, min(filters, 4) + 1)
                for passes in range(1, line + 1)
                if vectors * -(-line // passes) <= limits.most_sums
                and vectors * (-(-line // passes) + 1) <= limits.most
            ),
            key=cost,
        )

    def _tile(self, shape: Window, many_registers: bool) -> _Tile:
        vectors, taps = self._registers(shape, many_registers)
        room = (_MANY if many_registers else _FEW).tile_floats // (vectors * VECTOR)
        wide = -(-shape.out[1] // -(-shape.out[1] // room))
        band = 1
        while band < shape.out[0] and self._strip_floats(shape, band + 1) <= _ROOM:
            band += 1
        high = max(1, min(room // wide, band))
        return _Tile(vectors, taps, -(-band // high) * high, high, wide)

    def _pitch(self, shape: Window) -> int:
        """Floats of a copied row: what the last pixel reads that is no tap included."""
        channels = shape.channels if self.channels_last else 1
        last = (shape.out[1] - 1) * shape.stride[1]
        read = (last + shape.window[1]) * channels + _MANY.most_sums
        floats = max(read, channels * (shape.padding[1] + shape.size[1]))
        return -(-floats // VECTOR) * VECTOR

    def _strip_floats(self, shape: Window, band: int) -> int:
        """Floats of the rows of x that a band of y takes."""
        planes = 1 if self.channels_last else shape.channels
        return shape.span(band, 0) * planes * self._pitch(shape)

    def _parts(self, shape: Window, target: Target, limit: Limit) -> tuple[int, int]:
        """Return how many parts there are, and the bands of each."""
        most = parts_within(limit, items_wanted(target), self._part_bytes(shape, target))
        band = self._tile(shape, has_many_registers(target)).band
        bands = shape.images * -(-shape.out[0] // band)
        return even_parts(bands, most)

    def _part_bytes(self, shape: Window, target: Target) -> int:
        vectors, taps = self._registers(shape, has_many_registers(target))
        channels = shape.channels if self.channels_last else 1
        sums = -(-shape.window[1] * channels // taps) * taps * shape.window[0]
        lines = sums * shape.channels // channels
        return 4 * -(-shape.filters // (vectors * VECTOR)) * vectors * VECTOR * lines
