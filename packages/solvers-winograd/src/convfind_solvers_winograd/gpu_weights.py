"""Winograd convolution on GPUs: the weight gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, TunableVariant, memory_seconds, pieces, round_up
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, Recipe, align, i32
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import Direction
from convfind_solvers_winograd import gpu, gpu_product
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu import GpuSolver
from convfind_solvers_winograd.gpu_product import Tile
from convfind_solvers_winograd.gpu_weights_cover import Cover, cover
from convfind_solvers_winograd.gpu_weights_wgmma import BLOCK_UNIT, Stream, filled, stream_tiles

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: Sums are not split into parts shorter than this.
_SHORTEST = 128
#: The cost of reading a part beside its bytes.
_PART_SECONDS = 0.7e-6
_CHANNELS = 32  # of a work-group of the result's transform
#: The host's part in a launch, beside which the device works.
_HOST_SECONDS = 7e-6
#: Bytes take so many times as long for tiles of more than 4 x 4 gradients, whose transforms leave
#: places on a unit free.
_LARGE_TILES = 1.15
#: Items of the transforms to blocks; tiles of a group of them, channels last or first.
_BLOCK_GROUP = 256
_GROUP_TILES = {True: 16, False: 32}
#: Filters of a work-group of the transform of streamed results.
_OWN_FILTERS = 4


@dataclass(frozen=True)
class _Sizes:
    """The transformed tensors of so many images, and the sums of products."""

    problem: ConvProblem
    transform: Transform
    images: int
    channels_last: bool
    parts: int
    tile: Tile | None = None  # of Hopper's matrix units
    units: int = 0

    @property
    def filters(self) -> int:
        return self.problem.w_shape[0] // self.problem.groups

    @property
    def channels(self) -> int:
        return self.problem.w_shape[1]

    @property
    def padded_filters(self) -> int:
        return round_up(self.filters, self._row_unit)

    @property
    def padded_channels(self) -> int:
        return round_up(self.channels, self._row_unit)

    @cached_property
    def cover(self) -> Cover:
        unit = BLOCK_UNIT if self.tile else gpu_product.DEPTH_UNIT
        size = self.problem.y_shape[2:]
        return cover(self.transform, self.images, size, unit, channels_last=self.channels_last)

    @property
    def points(self) -> int:
        return self.transform.n**2

    @property
    def region_bytes(self) -> tuple[int, int, int]:
        """Bytes of x, of y, and of the sums."""
        one = 4 * self.points * self.problem.groups
        sums = one * self.filters * self.padded_channels * self.parts
        return (
            one * self.padded_channels * self.cover.tiles,
            one * self.padded_filters * self.cover.tiles,
            self.stream.sums_bytes if self.tile else sums,
        )

    @property
    def moved_bytes(self) -> int:
        """Bytes of x and y, transformed, less those that no product asks for."""
        one = 4 * self.problem.groups * self.cover.products
        return one * (self.padded_channels + self.padded_filters)

    def product(self, depth: int) -> gpu_product.Product:
        """The products that are not shared out by `Stream`, of sums of so many tiles."""
        matrices = self.points * self.problem.groups
        return gpu_product.Product(matrices, self.filters, self.channels, depth)

    @cached_property
    def stream(self) -> Stream:
        """The products on Hopper's matrix units."""
        assert self.tile
        sizes = (self.problem.groups, self.filters, self.channels, self.units)
        return Stream(self.tile, self.cover, *sizes)

    @property
    def _row_unit(self) -> int:
        return BLOCK_UNIT if self.tile else gpu_product.ROW_UNIT


class WeightsSolver(GpuSolver, TunableVariant):
    """w from x and y."""

    direction = Direction.BACKWARD_WEIGHTS
    version = 2

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles of the product, parts of its sum, and parts of the batch."""
        parts = Parameter("parts", _PARTS, "parts of the sum, computed side by side")
        streamed = stream_tiles(problem, self.transform, target)
        takes = (
            Tile.constraint(
                *("problem", lambda tile: not tile.splits or tile in streamed),
                "sums are long enough for split floats",
            ),
            Constraint(
                "shares",
                lambda c: not Tile.of(c).splits or c["parts"] == 1,
                "Hopper's matrix units share sums out themselves",
            ),
        )
        return SearchSpace(
            (*gpu_product.PARAMETERS, parts, gpu.CHUNK),
            (*gpu_product.constraints(target, split=True), *takes),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile and the parts that are expected to be quickest."""
        _, tile, parts = self._best(problem, target)
        return _config(tile, parts)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """For each part of the batch x, y and products; then the result."""
        sizes = self._sizes(problem, target, config, limit)
        (x, y, sums), workspace = gpu.regions(*sizes.region_bytes)
        steps: list[Launch] = []
        for first, images in pieces(problem.x_shape[0], sizes.images):
            if sizes.tile:  # whose parts of sums are the same in all parts of the batch
                steps.append(self._blocks(sizes, (first, images), x, y))
                steps.append(sizes.stream.launch(y, x, sums, add=first > 0))
                continue
            part = replace(sizes, images=images)
            steps += (
                self._tiles(part, first, Memory.X, x),
                self._tiles(part, first, Memory.Y, y),
                _multiplied(part, Tile.of(config), x, y, sums, add=first > 0),
            )
        steps.append(self._result(sizes, sums))
        return Recipe(self.solver_id, tuple(steps), workspace=workspace, config=config)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of products and their sums, of transforms and of launches."""
        seconds, tile, parts = self._best(problem, target)
        sizes = self._sizes(problem, target, _config(tile, parts), None)
        batches = -(-problem.x_shape[0] // sizes.images)
        pace = _LARGE_TILES if self.transform.r > 4 else 1.0
        moved = round(pace * (problem.traffic + batches * sizes.moved_bytes))
        launches = 1 + (2 if sizes.tile else 3) * batches
        device = gpu.index(problem, target, seconds, moved, launches)
        return min(device, gpu.index(problem, target, launches * _HOST_SECONDS, 0, 0))

    def _sizes(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> _Sizes:
        """Parts of the batch that fit; under a limit also fewer parts of the sum."""
        tile, parts, units = Tile.of(config), config.integer("parts"), target.compute_units

        def sizes(images: int) -> _Sizes:
            one = _Sizes(problem, self.transform, images, self.channels_last, parts)
            return replace(one, tile=tile, units=units) if tile.splits else one

        def needed(images: int) -> int:
            return sum(map(align, sizes(images).region_bytes))

        budget = config.integer("chunk_mib") << 20
        if limit is not None:
            budget = min(budget, limit)
            while max(parts, units) > 1 and needed(1) > budget:
                parts, units = -(-parts // 2), -(-units // 2)
        return sizes(gpu.chunk_images(problem.x_shape[0], budget, needed))

    def _best(self, problem: ConvProblem, target: Target) -> tuple[float, Tile, int]:
        sizes = _Sizes(problem, self.transform, problem.x_shape[0], self.channels_last, 1)
        product = sizes.product(sizes.cover.mean_depth)
        fitting = tuple(n for n in _PARTS if n == 1 or product.depth >= n * _SHORTEST)
        moved = memory_seconds(2 * sizes.region_bytes[2], target, gpu.BANDWIDTH_SHARE)
        found = [product.best(target, fitting, moved + _PART_SECONDS)]
        for tile in stream_tiles(problem, self.transform, target):
            stream = replace(sizes, tile=tile, units=target.compute_units).stream
            moved = memory_seconds(2 * stream.sums_bytes, target, gpu.BANDWIDTH_SHARE)
            found.append((stream.seconds + moved, tile, 1))
        return min(found, key=lambda choice: choice[0])

    def _largest(self, problem: ConvProblem) -> int:
        sizes = _Sizes(problem, self.transform, 1, self.channels_last, 1)
        image = max(problem.elements(name) for name in "xy") // problem.x_shape[0]
        tiles = prod(-(-size // self.transform.r) for size in problem.y_shape[2:])
        channels = max(filled(sizes.channels), filled(sizes.filters))
        # The padding of the four regions of tiles, at most.
        points = problem.groups * channels * (tiles + 4 * BLOCK_UNIT)
        padding = max(abs(pad) for pad in problem.padding)
        return max(image, points, problem.elements("w"), padding)

    def _tiles(self, sizes: _Sizes, first: int, memory: str, to: BufferArg) -> Launch:
        problem = sizes.problem
        if memory == Memory.X:
            entry, channels, padded = "winograd_gpu_data", sizes.channels, sizes.padded_channels
        else:
            entry, channels, padded = "winograd_gpu_gradient", sizes.filters, sizes.padded_filters
        padding = problem.padding if memory == Memory.X else (0, 0)
        count = problem.groups * padded * sizes.cover.tiles
        return self._elementwise(self._transforms(), entry, count)(
            *(memory, to, first, sizes.images, problem.groups, channels),
            *(*problem.shape(memory)[2:], *padding, padded),
            *sizes.cover.arguments,
        )

    def _blocks(self, sizes: _Sizes, images: tuple[int, int], x: BufferArg, y: BufferArg) -> Launch:
        """Transform so many images of x and y, from a first one on."""
        problem, group_tiles = sizes.problem, _GROUP_TILES[self.channels_last]

        def groups(channels: int) -> int:
            blocks = -(-channels // (_BLOCK_GROUP // group_tiles))
            return problem.groups * blocks * (sizes.cover.tiles // group_tiles)

        numbers = (
            *(*images, problem.groups, sizes.channels, sizes.filters),
            *(*problem.x_shape[2:], *problem.padding, *problem.y_shape[2:]),
            *(sizes.padded_channels, sizes.padded_filters, groups(sizes.channels)),
        )
        work_groups = groups(sizes.channels) + groups(sizes.filters)
        return Grid(self._programs(sizes), "winograd_gpu_blocks", work_groups, _BLOCK_GROUP)(
            *(Memory.X, Memory.Y, x, y),
            *numbers,
            *sizes.cover.arguments,
        )

    def _result(self, sizes: _Sizes, sums: BufferArg) -> Launch:
        problem = sizes.problem
        group = _CHANNELS * self.transform.n
        across, program = -(-sizes.channels // _CHANNELS), self._programs(sizes)
        _, w_channel, _, w_tap = problem.strides("w")
        where: tuple[Argument | str, ...] = (sums, Memory.W, *Epilogue.of(problem).arguments)
        if sizes.tile:
            stream = sizes.stream
            down = -(-sizes.filters // _OWN_FILTERS)
            return Grid(program, "winograd_gpu_weights", (across, down, problem.groups), group)(
                *where,
                *(problem.groups, sizes.filters, sizes.channels, w_channel, w_tap),
                *stream.share,
                *stream.ends,
            )
        return Grid(program, "winograd_gpu_weights", (across, problem.w_shape[0]), group)(
            *where,
            *(sizes.parts, problem.w_shape[0], sizes.channels),
            *(sizes.padded_channels, w_channel, w_tap),
        )

    def _programs(self, sizes: _Sizes) -> Program:
        """The transforms' program."""
        if not sizes.tile:
            return self._transforms()
        return self._transforms(BLOCKS=1, TILE_M=sizes.tile.tile_m, TILE_N=sizes.tile.tile_n)


class ShortWeightsSolver(WeightsSolver):
    """For 3x3 filters with channels last: tiles that would hang over an edge are shortened."""

    version = 3


def _config(tile: Tile, parts: int) -> Config:
    return Config(tile.values, parts=parts, chunk_mib=gpu.DEFAULT_CHUNK)


def _multiplied(
    sizes: _Sizes, tile: Tile, x: BufferArg, y: BufferArg, sums: BufferArg, *, add: bool
) -> Launch:
    last, tiles = sizes.channels_last, sizes.cover.tiles
    rows, columns = sizes.padded_filters, sizes.padded_channels
    a = gpu_product.Operand(y, rows if last else tiles, rows * tiles, along_depth=not last)
    b = gpu_product.Operand(x, columns if last else tiles, columns * tiles, along_depth=not last)
    return sizes.product(tiles).launch(
        *(tile, a, b, sums),
        parts=sizes.parts,
        add=add,
        products=gpu_product.tensor_core_products(sizes.problem, sizes.transform),
        spans=sizes.transform.n,
        ends=tuple(map(i32, (sizes.problem.groups, *sizes.cover.ends[:3]))),
    )
