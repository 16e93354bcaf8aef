"""Winograd convolution on GPUs: forward and the data gradient."""

from __future__ import annotations

from convfind.config import Config
from convfind.problem import ConvProblem
from convfind.search_space import SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, align, f32, i32
from convfind.target import Target
from convfind_solvers_winograd.geometry import geometry
from convfind_solvers_winograd.gpu import (
    CHUNK,
    DEFAULT_CHUNK,
    GpuSolver,
    chunk_images,
    index,
    regions,
)
from convfind_solvers_winograd.gpu_product import (
    PARAMETERS,
    Operand,
    Tile,
    constraints,
    tensor_core_products,
)
from convfind_solvers_winograd.gpu_sizes import ConvSizes, filter_launch


class ConvSolver(GpuSolver):
    """A result from a source and the weights, transformed before the run where they are bound."""

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of transformed weights, and of data and products of a part of the batch."""
        sizes = self._sizes(problem, DEFAULT_CHUNK, limit)
        return regions(*sizes.region_bytes)[1] + sizes.packed_bytes

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles of the product, and parts of the batch."""
        return SearchSpace((*PARAMETERS, CHUNK), constraints(target))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile that is expected to be quickest."""
        sizes = self._sizes(problem, DEFAULT_CHUNK, None)
        _, tile, _ = sizes.product.best(target)
        return Config(tile.values, chunk_mib=DEFAULT_CHUNK)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch for the weights; for each part of the batch: data, products, result."""
        chosen = config or self.default_config(problem, target)
        sizes = self._sizes(problem, chosen.integer("chunk_mib"), workspace_limit)
        (data, sums), workspace = regions(*sizes.region_bytes)
        products = tensor_core_products(problem)
        steps: list[Launch] = []
        for first in range(0, sizes.shape.images, sizes.images):
            images = min(sizes.images, sizes.shape.images - first)
            part = ConvSizes(sizes.shape, sizes.transform, images, self.channels_last)
            steps += (
                self._data(part, first, data),
                _multiplied(part, Tile.of(chosen), data, sums, products=products),
                self._result(part, first, sums, problem),
            )
        return ConvSolution(
            self.solver_id,
            tuple(steps),
            prepare=(filter_launch(self._transforms(), sizes),),
            workspace=workspace,
            packed=sizes.packed_bytes,
            config=chosen,
        )

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of products, of transforms and of launches."""
        sizes = self._sizes(problem, DEFAULT_CHUNK, None)
        parts = -(-sizes.shape.images // sizes.images)
        seconds = sizes.product.best(target)[0] * parts
        moved = problem.traffic + sizes.packed_bytes + parts * sum(sizes.region_bytes)
        return index(problem, target, seconds, moved, 1 + 3 * parts)

    def _sizes(self, problem: ConvProblem, chunk_mib: int, limit: int | None) -> ConvSizes:
        shape = geometry(problem)

        def sizes(images: int) -> ConvSizes:
            return ConvSizes(shape, self.transform, images, self.channels_last)

        def needed(images: int) -> int:
            return sum(map(align, sizes(images).region_bytes))

        budget = chunk_mib << 20
        if limit is not None:
            budget = min(budget, limit - sizes(1).packed_bytes)
        return sizes(chunk_images(shape.images, budget, needed))

    def _largest(self, problem: ConvProblem) -> int:
        shape = geometry(problem)
        sizes = ConvSizes(shape, self.transform, 1, self.channels_last)
        image = max(problem.elements(name) for name in "xy") // shape.images
        weights = problem.elements("w")
        return max(image, weights, sizes.data, sizes.sums, *map(abs, shape.padding))

    def _data(self, sizes: ConvSizes, first: int, data: BufferArg) -> Launch:
        shape = sizes.shape
        return self._transformed(
            "winograd_gpu_data",
            BufferArg(shape.source),
            data,
            (first, sizes.images),
            (shape.groups, shape.channels, sizes.channels),
            shape.size,
            shape.padding,
            (*sizes.tiles_of_image, sizes.padded_tiles),
        )

    def _result(
        self, sizes: ConvSizes, first: int, sums: BufferArg, problem: ConvProblem
    ) -> Launch:
        shape = sizes.shape
        return self._elementwise(
            "winograd_gpu_result",
            sizes.sums,
            sums,
            BufferArg(shape.result),
            f32(problem.alpha),
            f32(problem.beta),
            *map(i32, (first, sizes.images, shape.groups, shape.filters)),
            *map(i32, (*shape.out, *sizes.tiles_of_image, sizes.filters, sizes.padded_tiles)),
        )


def _multiplied(
    sizes: ConvSizes, tile: Tile, data: BufferArg, sums: BufferArg, *, products: int
) -> Launch:
    matrix = sizes.channels * sizes.filters
    weights = Operand(BufferArg(Memory.PACKED), sizes.filters, matrix, along_depth=False)
    last = sizes.channels_last
    step = sizes.channels if last else sizes.padded_tiles
    tensor = Operand(data, step, sizes.channels * sizes.padded_tiles, along_depth=last)
    a, b = (tensor, weights) if last else (weights, tensor)
    return sizes.product.launch(tile, a, b, sums, columns_first=last, products=products)
