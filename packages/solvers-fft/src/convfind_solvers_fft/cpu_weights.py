"""FFT convolution on CPUs: the weight gradient."""

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
class _Sizes(Sizes):
    """The transformed tensors of so many tiles, and the sums of products."""

    @property
    def points(self) -> tuple[int, int, int]:
        """Floats from a point to the next: of the data, of the gradients, of the sums."""
        rows = self.shape.groups * self.shape.channels
        return self.values_point, self.sums_point, rows * 2 * self.panels + SKEW

    @property
    def places(self) -> tuple[int, int, int, int]:
        """Where data, gradients and sums begin, and where all ends, in bytes."""
        values, gradients, sums = (align(4 * self.tiling.points * point) for point in self.points)
        return 0, values, values + gradients, values + gradients + sums


class CpuWeightsSolver(ProductsSolver):
    """w from x and y, float32, in one family of layouts."""

    direct_share = 0.7
    file = "cpu_weights"

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """For each part of the tiles x, y and products; then the result."""
        one = _Sizes.one(problem, target, config)
        *_, sums, end = one.places
        budget = (config.integer("chunk_mib") << 20) + end - sums
        if limit is not None:
            budget = min(budget, limit)
        each = one.of(2).places[-1] - end + 2 * align(1)
        sizes = one.evenly((budget - end) // each + 1)
        program = self._program(target, sizes.tiling.tile, Epilogue.of(problem))
        steps: list[Launch] = []
        at = sizes.places
        for first, count in pieces(sizes.tiling.tiles, sizes.count):
            part = sizes.of(count)
            steps += (
                self._data(program, part, first),
                self._gradients(program, part, first, at[1]),
                self._sum(program, part, first, at),
            )
        steps.append(self._weights(program, sizes, at[2], problem))
        return Recipe(self.solver_id, tuple(steps), workspace=at[-1], config=config)

    @staticmethod
    def _gradients(program: Program, sizes: Sizes, first: int, at: int) -> Launch:
        """Transform tiles of y as large as their results."""
        shape, tiling = sizes.shape, sizes.tiling
        return Grid(program, "fft_cpu_data", (sizes.count, sizes.sums_pitch // VECTOR))(
            *(Memory.Y, BufferArg(Memory.WORKSPACE, at)),
            *(shape.images, shape.groups * shape.filters, *shape.out, first),
            *(*tiling.tiles_of_image, *tiling.step, 0, 0),
            *(*tiling.step, sizes.sums_pitch),
            *(i64(sizes.sums_point), 1),
        )

    def _sum(self, program: Program, sizes: _Sizes, first: int, at: tuple[int, ...]) -> Launch:
        shape = sizes.shape
        return Grid(program, "fft_cpu_sum", sizes.tiling.points)(
            *(BufferArg(Memory.WORKSPACE, place) for place in at[:3]),
            *(sizes.count, shape.groups, shape.channels, shape.filters),
            *(sizes.values_pitch, sizes.sums_pitch, sizes.panels),
            *map(i64, sizes.points),
            first > 0,
        )

    def _weights(self, program: Program, sizes: _Sizes, at: int, problem: ConvProblem) -> Launch:
        shape = sizes.shape
        groups = (shape.channels, -(-shape.filters // VECTOR), shape.groups)
        return Grid(program, "fft_cpu_weights", groups)(
            *(BufferArg(Memory.WORKSPACE, at), Memory.W),
            *Epilogue.of(problem).arguments,
            *(shape.channels, shape.filters, *shape.window, sizes.panels),
            i64(sizes.points[2]),
            *map(i64, shape.weight_steps),
        )
