"""Winograd convolution on GPUs: forward and the data gradient."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Limit, TunableVariant, memory_seconds, pieces
from convfind.problem import ConvProblem
from convfind.solver import GPUS, Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, align
from convfind.solver.search_space import SearchSpace
from convfind_solvers_winograd import gpu, gpu_product
from convfind_solvers_winograd.applicability import DOMAIN
from convfind_solvers_winograd.geometry import geometry
from convfind_solvers_winograd.gpu import GpuSolver
from convfind_solvers_winograd.gpu_product import Tile
from convfind_solvers_winograd.gpu_sizes import ConvSizes, FilterOrder, filter_launch
from convfind_solvers_winograd.gpu_wgmma import fits_channels, splits, wgmma_launch


class ConvSolver(GpuSolver, TunableVariant):
    """A result from a source and the weights, transformed before the run where they are bound."""

    version = 2
    domain = replace(DOMAIN, kinds=GPUS)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles of the product, and parts of the batch."""
        channels, why = geometry(problem).channels, "filters that are held fit into local memory"
        takes = Tile.constraint("filters", lambda tile: fits_channels(tile, channels), why)
        split = splits(problem, self.transform, self.axes, channels_last=self.channels_last)
        return SearchSpace(
            (*gpu_product.PARAMETERS, gpu.CHUNK),
            (*gpu_product.constraints(target, split=split), takes),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile that is expected to be quickest."""
        _, tile = self._best(problem, target)
        return Config(tile.values, chunk_mib=gpu.DEFAULT_CHUNK)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the weights; for each part of the batch: data, products, result."""
        tile = Tile.of(config)
        sizes = self._sizes(problem, tile, config.integer("chunk_mib"), limit)
        (data, sums), workspace = gpu.regions(*sizes.region_bytes)
        along_h, along_w = sizes.along
        transforms = self._transforms(
            SPLIT_FILTERS=tile.splits,
            ALONG_H=along_h,
            ALONG_W=along_w,
            DILATED=max(problem.dilation) > 1,
            **Epilogue.of(problem).defines,
        )
        products = gpu_product.tensor_core_products(problem, self.transform, self.axes)
        steps: list[Launch] = []
        for first, images in pieces(sizes.shape.images, sizes.images):
            part = replace(sizes, images=images)
            if tile.splits:
                product = wgmma_launch(part, tile, data, sums, target)
            else:
                product = _multiplied(part, tile, data, sums, products)
            steps += (
                self._data(transforms, part, first, data),
                product,
                self._result(transforms, part, first, sums, problem),
            )
        return Recipe(
            self.solver_id,
            tuple(steps),
            prepare=(filter_launch(transforms, sizes),),
            workspace=workspace,
            packed=sizes.packed_bytes,
            config=config,
        )

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of products, of transforms and of launches."""
        seconds, tile = self._best(problem, target)
        sizes = self._sizes(problem, tile, gpu.DEFAULT_CHUNK, None)
        parts = -(-sizes.shape.images // sizes.images)
        moved = problem.traffic + sizes.packed_bytes + parts * sizes.region_bytes[0]
        return gpu.index(problem, target, seconds, moved, 1 + 3 * parts)

    def _best(self, problem: ConvProblem, target: Target) -> tuple[float, Tile]:
        """Return the fewest seconds of products and of reading them, and the tile for it."""

        def seconds(tile: Tile) -> float:
            sizes = self._sizes(problem, tile, gpu.DEFAULT_CHUNK, None)
            parts = -(-sizes.shape.images // sizes.images)
            read = memory_seconds(sizes.region_bytes[1], target, gpu.BANDWIDTH_SHARE)
            return parts * (sizes.product.seconds(tile, 1, target.compute_units) + read)

        split = splits(problem, self.transform, self.axes, channels_last=self.channels_last)
        channels = geometry(problem).channels
        found = (t for t in gpu_product.tiles(target, split=split) if fits_channels(t, channels))
        return min(((seconds(tile), tile) for tile in found), key=lambda choice: choice[0])

    def _sizes(self, problem: ConvProblem, tile: Tile, chunk_mib: int, limit: Limit) -> ConvSizes:
        shape = geometry(problem)
        order = FilterOrder.SPLIT if tile.splits else FilterOrder.PLAIN
        one = ConvSizes(
            *(shape, self.transform, 1, self.channels_last, order), along=_along(problem)
        )

        def needed(images: int) -> int:
            return sum(map(align, replace(one, images=images).region_bytes))

        budget = chunk_mib << 20
        if limit is not None:
            budget = min(budget, limit - one.packed_bytes)
        return replace(one, images=gpu.chunk_images(shape.images, budget, needed))

    def _largest(self, problem: ConvProblem) -> int:
        shape = geometry(problem)
        sizes = ConvSizes(shape, self.transform, 1, self.channels_last, along=_along(problem))
        image = max(problem.elements(name) for name in "xy") // shape.images
        weights = problem.elements("w")
        return max(image, weights, sizes.data, sizes.sums, *map(abs, shape.padding))

    def _data(self, transforms: Program, sizes: ConvSizes, first: int, data: BufferArg) -> Launch:
        shape = sizes.shape
        return self._elementwise(transforms, "winograd_gpu_data", sizes.data)(
            *(shape.source, data, first, sizes.images, shape.groups, shape.channels),
            *(*shape.size, *shape.padding, *sizes.tiles_of_image),
            *(sizes.channels, sizes.padded_tiles, *shape.dilation),
        )

    def _result(
        self,
        transforms: Program,
        sizes: ConvSizes,
        first: int,
        sums: BufferArg,
        problem: ConvProblem,
    ) -> Launch:
        shape = sizes.shape
        return self._elementwise(transforms, "winograd_gpu_result", sizes.sums)(
            *(sums, shape.result),
            *Epilogue.of(problem).arguments,
            *(first, sizes.images, shape.groups, shape.filters),
            *(*shape.out, *sizes.tiles_of_image, sizes.filters, sizes.padded_tiles),
            *shape.dilation,
        )


def _along(problem: ConvProblem) -> tuple[bool, ...]:
    """Say along which axes filters have more than one tap."""
    return tuple(taps > 1 for taps in problem.filter)


def _multiplied(
    sizes: ConvSizes, tile: Tile, data: BufferArg, sums: BufferArg, products: int
) -> Launch:
    matrix = sizes.channels * sizes.filters
    weights = gpu_product.Operand(
        BufferArg(Memory.PACKED), sizes.filters, matrix, along_depth=False
    )
    last = sizes.channels_last
    step = sizes.channels if last else sizes.padded_tiles
    tensor = gpu_product.Operand(data, step, sizes.channels * sizes.padded_tiles, along_depth=last)
    a, b = (tensor, weights) if last else (weights, tensor)
    return sizes.product.launch(tile, a, b, sums, columns_first=last, products=products)
