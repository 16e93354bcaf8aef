"""FFT convolution on CPUs with matrix products of spectra: forward and the data gradient."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, pieces
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, align, i64
from convfind_solvers_fft.cpu import VECTOR
from convfind_solvers_fft.cpu_products import SKEW, ProductsSolver, Sizes


@dataclass(frozen=True, slots=True)
class DenseSizes(Sizes):
    """The transformed tensors, with those of the weights."""

    @property
    def packed_point(self) -> int:
        """Floats from a point of a group's weights to the next."""
        return self.panels * self.shape.channels * 2 + SKEW

    @property
    def values_bytes(self) -> int:
        """Bytes of the data, products lie behind them."""
        return align(4 * self.tiling.points * self.values_point)

    @property
    def bytes(self) -> int:
        """Bytes of data and products."""
        return self.values_bytes + 4 * self.tiling.points * self.sums_point

    @property
    def packed_bytes(self) -> int:
        """Bytes of the weights."""
        return 4 * self.shape.groups * self.tiling.points * self.packed_point


class CpuDenseSolver(ProductsSolver):
    """A float32 convolution in one direction and one family of layouts."""

    direct_share = 0.8
    beside_tiles = 16  # each packed weight is read from memory
    file = "cpu_dense"

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the weights; for each part of the tiles: data, products, result."""
        one = DenseSizes.one(problem, target, config)
        budget = config.integer("chunk_mib") << 20
        if limit is not None:
            budget = min(budget, limit - one.packed_bytes - 2 * align(1))
        sizes = one.evenly((budget - one.bytes) // (one.of(2).bytes - one.bytes) + 1)
        program = self._program(target, sizes.tiling.tile, Epilogue.of(problem))
        steps: list[Launch] = []
        for first, count in pieces(sizes.tiling.tiles, sizes.count):
            part = sizes.of(count)
            steps += (
                self._data(program, part, first),
                self._product(program, part, sizes.values_bytes),
                self._result(program, part, first, sizes.values_bytes, problem),
            )
        return Recipe(
            self.solver_id,
            tuple(steps),
            prepare=(self._filter(program, sizes),),
            workspace=sizes.bytes,
            packed=sizes.packed_bytes,
            config=config,
        )

    def _filter(self, program: Program, sizes: DenseSizes) -> Launch:
        shape = sizes.shape
        groups = (sizes.panels // VECTOR, -(-shape.channels // VECTOR), shape.groups)
        return Grid(program, "fft_cpu_filter", groups)(
            *(Memory.W, Memory.PACKED),
            *(shape.filters, shape.channels, *shape.window),
            i64(sizes.packed_point),
            *shape.weight_arguments,
        )

    def _product(self, program: Program, sizes: DenseSizes, sums_at: int) -> Launch:
        shape = sizes.shape
        return Grid(program, "fft_cpu_product", sizes.tiling.points)(
            *(Memory.WORKSPACE, Memory.PACKED, BufferArg(Memory.WORKSPACE, sums_at)),
            *(sizes.count, shape.groups, shape.channels, shape.filters),
            *(sizes.values_pitch, sizes.sums_pitch),
            *map(i64, (sizes.values_point, sizes.packed_point, sizes.sums_point)),
        )

    def _result(
        self, program: Program, sizes: DenseSizes, first: int, sums_at: int, problem: ConvProblem
    ) -> Launch:
        shape, tiling = sizes.shape, sizes.tiling
        filters = shape.groups * shape.filters
        return Grid(program, "fft_cpu_result", (sizes.count, -(-filters // VECTOR)))(
            *(BufferArg(Memory.WORKSPACE, sums_at), shape.result),
            *Epilogue.of(problem).arguments,
            *(filters, *shape.out, first),
            *(*tiling.tiles_of_image, *tiling.step, sizes.sums_pitch),
            i64(sizes.sums_point),
        )
