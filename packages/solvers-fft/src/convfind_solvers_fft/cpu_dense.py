"""FFT convolution on CPUs with matrix products of spectra: forward and the data gradient."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.plane_geometry import PlaneGeometry, plane_geometry
from convfind.kit.register_tile import COMPLEX
from convfind.kit.sizes import round_up
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, align, i32, i64
from convfind_solvers_fft.cpu import VECTOR, transform_operations
from convfind_solvers_fft.cpu_products import SKEW, TRANSFORM_SHARE, ProductsSolver
from convfind_solvers_fft.geometry import Tiling

#: Reading a packed weight from memory takes as long as multiplying it so many times.
_PACKED_TRAFFIC = 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """The transformed tensors of so many tiles."""

    shape: PlaneGeometry
    tiling: Tiling
    count: int
    panel: int

    @property
    def values_pitch(self) -> int:
        """Channels of all groups, filled up."""
        return round_up(self.shape.groups * self.shape.channels, VECTOR)

    @property
    def sums_pitch(self) -> int:
        """Filters of all groups, and what the last panel has beyond them."""
        shape = self.shape
        before = (shape.groups - 1) * shape.filters
        return round_up(before + round_up(shape.filters, self.panel), VECTOR)

    @property
    def values_point(self) -> int:
        """Floats from a point of the data to the next."""
        return self.count * 2 * self.values_pitch + SKEW

    @property
    def sums_point(self) -> int:
        """Floats from a point of the products to the next."""
        return self.count * 2 * self.sums_pitch + SKEW

    @property
    def packed_point(self) -> int:
        """Floats from a point of a group's weights to the next."""
        return round_up(self.shape.filters, self.panel) * self.shape.channels * 2 + SKEW

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
    file = "cpu_dense.cl"

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch for the weights; for each part of the tiles: data, products, result."""
        config = config or self.default_config(problem, target)
        sizes = self._sizes(problem, target, config, workspace_limit)
        program = self._program(target, sizes.tiling.tile, Epilogue.of(problem))
        steps: list[Launch] = []
        for first in range(0, sizes.tiling.tiles, sizes.count):
            count = min(sizes.count, sizes.tiling.tiles - first)
            part = Sizes(sizes.shape, sizes.tiling, count, sizes.panel)
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

    def _sizes(
        self, problem: ConvProblem, target: Target, config: Config, limit: int | None
    ) -> Sizes:
        shape = plane_geometry(problem)
        tiling = Tiling(config.integer("tile"), shape)
        panel = COMPLEX.of(target)[1] * VECTOR
        one = Sizes(shape, tiling, 1, panel)
        budget = config.integer("chunk_mib") << 20
        if limit is not None:
            budget = min(budget, limit - one.packed_bytes - 2 * align(1))
        each = Sizes(shape, tiling, 2, panel).bytes - one.bytes
        most = max(1, (budget - one.bytes) // each + 1)
        parts = -(-tiling.tiles // most)
        return Sizes(shape, tiling, -(-tiling.tiles // parts), panel)

    def _operations(self, problem: ConvProblem, target: Target, tiling: Tiling) -> float:
        shape = tiling.shape
        channels, filters = shape.groups * shape.channels, shape.groups * shape.filters
        lanes = round_up(channels, VECTOR) + round_up(filters, VECTOR)
        panel = COMPLEX.of(target)[1] * VECTOR
        weights = channels * round_up(shape.filters, panel)
        products = 8.0 * weights * tiling.points
        transforms = (
            transform_operations(tiling.tile) / TRANSFORM_SHARE * (tiling.tiles * lanes + weights)
        )
        return transforms + products * (tiling.tiles + _PACKED_TRAFFIC)

    def _filter(self, program: Program, sizes: Sizes) -> Launch:
        shape = sizes.shape
        return Launch(
            KernelSpec(program, "fft_cpu_filter"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                *map(i32, (shape.filters, shape.channels, *shape.window)),
                i64(sizes.packed_point),
                *map(i64, shape.weight_steps),
                i32(int(shape.flipped)),
            ),
            (
                round_up(shape.filters, sizes.panel) // VECTOR,
                -(-shape.channels // VECTOR),
                shape.groups,
            ),
            (1, 1, 1),
        )

    def _data(self, program: Program, sizes: Sizes, first: int) -> Launch:
        shape, tiling = sizes.shape, sizes.tiling
        return Launch(
            KernelSpec(program, "fft_cpu_data"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.WORKSPACE),
                *map(i32, (shape.images, shape.groups * shape.channels, *shape.size, first)),
                *map(i32, (*tiling.tiles_of_image, *tiling.step, *shape.padding)),
                *map(i32, (tiling.tile, tiling.tile, sizes.values_pitch)),
                i64(sizes.values_point),
                i32(0),
            ),
            (sizes.count, sizes.values_pitch // VECTOR),
            (1, 1),
        )

    def _product(self, program: Program, sizes: Sizes, sums_at: int) -> Launch:
        shape = sizes.shape
        return Launch(
            KernelSpec(program, "fft_cpu_product"),
            (
                BufferArg(Memory.WORKSPACE),
                BufferArg(Memory.PACKED),
                BufferArg(Memory.WORKSPACE, sums_at),
                *map(i32, (sizes.count, shape.groups, shape.channels, shape.filters)),
                *map(i32, (sizes.values_pitch, sizes.sums_pitch)),
                *map(i64, (sizes.values_point, sizes.packed_point, sizes.sums_point)),
            ),
            (sizes.tiling.points,),
            (1,),
        )

    def _result(
        self, program: Program, sizes: Sizes, first: int, sums_at: int, problem: ConvProblem
    ) -> Launch:
        shape, tiling = sizes.shape, sizes.tiling
        filters = shape.groups * shape.filters
        return Launch(
            KernelSpec(program, "fft_cpu_result"),
            (
                BufferArg(Memory.WORKSPACE, sums_at),
                BufferArg(shape.result),
                *Epilogue.of(problem).arguments,
                *map(i32, (filters, *shape.out, first)),
                *map(i32, (*tiling.tiles_of_image, *tiling.step, sizes.sums_pitch)),
                i64(sizes.sums_point),
            ),
            (sizes.count, -(-filters // VECTOR)),
            (1, 1),
        )
