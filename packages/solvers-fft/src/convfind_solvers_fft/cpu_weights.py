"""FFT convolution on CPUs: the weight gradient."""

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


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The transformed tensors of so many tiles, and the sums of products."""

    shape: PlaneGeometry
    tiling: Tiling
    count: int
    panel: int

    @property
    def values_pitch(self) -> int:
        return round_up(self.shape.groups * self.shape.channels, VECTOR)

    @property
    def gradients_pitch(self) -> int:
        """Filters of all groups, and what the last panel reads beyond them."""
        before = (self.shape.groups - 1) * self.shape.filters
        return round_up(before + self.sums_pitch, VECTOR)

    @property
    def sums_pitch(self) -> int:
        return round_up(self.shape.filters, self.panel)

    @property
    def points(self) -> tuple[int, int, int]:
        """Floats from a point to the next: of the data, of the gradients, of the sums."""
        rows = self.shape.groups * self.shape.channels
        return (
            self.count * 2 * self.values_pitch + SKEW,
            self.count * 2 * self.gradients_pitch + SKEW,
            rows * 2 * self.sums_pitch + SKEW,
        )

    @property
    def places(self) -> tuple[int, int, int, int]:
        """Where data, gradients and sums begin, and where all ends, in bytes."""
        values, gradients, sums = (align(4 * self.tiling.points * point) for point in self.points)
        return 0, values, values + gradients, values + gradients + sums


class CpuWeightsSolver(ProductsSolver):
    """w from x and y, float32, in one family of layouts."""

    direct_share = 0.7
    file = "cpu_weights.cl"

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """For each part of the tiles x, y and products; then the result."""
        config = config or self.default_config(problem, target)
        sizes = self._sizes(problem, target, config, workspace_limit)
        program = self._program(target, sizes.tiling.tile, Epilogue.of(problem))
        steps: list[Launch] = []
        at = sizes.places
        for first in range(0, sizes.tiling.tiles, sizes.count):
            count = min(sizes.count, sizes.tiling.tiles - first)
            part = _Sizes(sizes.shape, sizes.tiling, count, sizes.panel)
            steps += (
                self._tiles(program, part, first, Memory.X, at[0]),
                self._tiles(program, part, first, Memory.Y, at[1]),
                self._sum(program, part, first, at),
            )
        steps.append(self._weights(program, sizes, at[2], problem))
        return Recipe(self.solver_id, tuple(steps), workspace=at[-1], config=config)

    def _sizes(
        self, problem: ConvProblem, target: Target, config: Config, limit: int | None
    ) -> _Sizes:
        shape = plane_geometry(problem)
        tiling = Tiling(config.integer("tile"), shape)
        panel = COMPLEX.of(target)[1] * VECTOR
        one, two = (_Sizes(shape, tiling, count, panel).places for count in (1, 2))
        budget = (config.integer("chunk_mib") << 20) + one[-1] - one[2]
        if limit is not None:
            budget = min(budget, limit)
        most = max(1, (budget - one[-1]) // (two[-1] - one[-1] + 2 * align(1)) + 1)
        parts = -(-tiling.tiles // most)
        return _Sizes(shape, tiling, -(-tiling.tiles // parts), panel)

    def _operations(self, problem: ConvProblem, target: Target, tiling: Tiling) -> float:
        shape = tiling.shape
        channels, filters = shape.groups * shape.channels, shape.groups * shape.filters
        lanes = round_up(channels, VECTOR) + round_up(filters, VECTOR)
        weights = channels * round_up(shape.filters, COMPLEX.of(target)[1] * VECTOR)
        products = 8.0 * weights * tiling.points * tiling.tiles
        return (
            transform_operations(tiling.tile) / TRANSFORM_SHARE * (tiling.tiles * lanes + weights)
            + products
        )

    def _tiles(self, program: Program, sizes: _Sizes, first: int, memory: str, at: int) -> Launch:
        shape, tiling = sizes.shape, sizes.tiling
        is_x = memory == Memory.X
        channels = shape.groups * (shape.channels if is_x else shape.filters)
        pitch = sizes.values_pitch if is_x else sizes.gradients_pitch
        return Launch(
            KernelSpec(program, "fft_cpu_data"),
            (
                BufferArg(memory),
                BufferArg(Memory.WORKSPACE, at),
                *map(i32, (shape.images, channels, *(shape.size if is_x else shape.out), first)),
                *map(i32, (*tiling.tiles_of_image, *tiling.step)),
                *map(i32, shape.padding if is_x else (0, 0)),
                *map(i32, (tiling.tile, tiling.tile) if is_x else tiling.step),
                i32(pitch),
                i64(sizes.points[0 if is_x else 1]),
                i32(int(not is_x)),
            ),
            (sizes.count, pitch // VECTOR),
            (1, 1),
        )

    def _sum(self, program: Program, sizes: _Sizes, first: int, at: tuple[int, ...]) -> Launch:
        shape = sizes.shape
        return Launch(
            KernelSpec(program, "fft_cpu_sum"),
            (
                *(BufferArg(Memory.WORKSPACE, place) for place in at[:3]),
                *map(i32, (sizes.count, shape.groups, shape.channels, shape.filters)),
                *map(i32, (sizes.values_pitch, sizes.gradients_pitch, sizes.sums_pitch)),
                *map(i64, sizes.points),
                i32(int(first > 0)),
            ),
            (sizes.tiling.points,),
            (1,),
        )

    def _weights(self, program: Program, sizes: _Sizes, at: int, problem: ConvProblem) -> Launch:
        shape = sizes.shape
        return Launch(
            KernelSpec(program, "fft_cpu_weights"),
            (
                BufferArg(Memory.WORKSPACE, at),
                BufferArg(Memory.W),
                *Epilogue.of(problem).arguments,
                *map(i32, (shape.channels, shape.filters, *shape.window, sizes.sums_pitch)),
                i64(sizes.points[2]),
                *map(i64, shape.weight_steps),
            ),
            (shape.channels, -(-shape.filters // VECTOR), shape.groups),
            (1, 1, 1),
        )
