"""Winograd convolution on GPUs: the weight gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from convfind.config import Config
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, align, f32, i32
from convfind.solver import TunableSolver
from convfind.target import Target
from convfind.types import Direction
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.gpu import (
    CHUNK,
    DEFAULT_CHUNK,
    UNIT_BANDWIDTH,
    GpuSolver,
    chunk_images,
    index,
    regions,
)
from convfind_solvers_winograd.gpu_product import (
    DEPTH_UNIT,
    PARAMETERS,
    ROW_UNIT,
    Operand,
    Product,
    Tile,
    constraints,
    padded,
    tensor_core_products,
)
from convfind_solvers_winograd.gpu_weights_wgmma import (
    BLOCK_UNIT,
    Stream,
    filled,
    stream_tiles,
)

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: Sums are not split into parts shorter than this.
_SHORTEST = 128
#: What reading a part takes beside its bytes.
_PART_SECONDS = 0.7e-6
_CHANNELS = 32  # of a work-group of the result's transform
#: Items of the transforms to blocks; tiles of a group of them, channels last or first.
_BLOCK_GROUP = 256
_GROUP_TILES = {True: 16, False: 32}
#: Filters of a work-group of the transform of streamed results.
_OWN_FILTERS = 4


@dataclass(frozen=True, slots=True)
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
        return padded(self.filters, self._row_unit)

    @property
    def padded_channels(self) -> int:
        return padded(self.channels, self._row_unit)

    @property
    def tiles_of_image(self) -> tuple[int, int]:
        height, width = (-(-size // self.transform.r) for size in self.problem.y_shape[2:])
        return height, width

    @property
    def tiles(self) -> int:
        unit = BLOCK_UNIT if self.tile else DEPTH_UNIT
        return padded(self.images * prod(self.tiles_of_image), unit)

    @property
    def points(self) -> int:
        return self.transform.n**2

    @property
    def region_bytes(self) -> tuple[int, int, int]:
        """Of x, of y, and of the sums."""
        one = 4 * self.points * self.problem.groups
        sums = one * self.filters * self.padded_channels * self.parts
        return (
            one * self.padded_channels * self.tiles,
            one * self.padded_filters * self.tiles,
            self.stream.sums_bytes if self.tile else sums,
        )

    @property
    def product(self) -> Product:
        matrices = self.points * self.problem.groups
        return Product(matrices, self.filters, self.channels, self.tiles)

    @property
    def stream(self) -> Stream:
        """The products on Hopper's matrix units."""
        assert self.tile
        matrices = self.points * self.problem.groups
        sizes = (matrices, self.filters, self.channels, self.tiles, self.units)
        return Stream(self.tile, *sizes)

    @property
    def _row_unit(self) -> int:
        return BLOCK_UNIT if self.tile else ROW_UNIT


class WeightsSolver(GpuSolver, TunableSolver):
    """w from x and y."""

    version = 2

    def __init__(self, transform: Transform, *, channels_last: bool) -> None:
        """Take the variant."""
        super().__init__(transform, Direction.BACKWARD_WEIGHTS, channels_last=channels_last)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of x and y of a part of the batch, and of the products."""
        sizes = self._sizes(problem, target, self.default_config(problem, target), limit)
        return regions(*sizes.region_bytes)[1]

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles of the product, parts of its sum, and parts of the batch."""
        parts = Parameter("parts", _PARTS, "parts of the sum, computed side by side")
        streamed = stream_tiles(problem, target)
        takes = (
            Constraint(
                "problem",
                lambda c: not Tile.of(c).splits or Tile.of(c) in streamed,
                "sums are long enough for split floats",
            ),
            Constraint(
                "shares",
                lambda c: not Tile.of(c).splits or c["parts"] == 1,
                "Hopper's matrix units share sums out themselves",
            ),
        )
        return SearchSpace((*PARAMETERS, parts, CHUNK), (*constraints(target, split=True), *takes))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile and the parts that are expected to be quickest."""
        _, tile, parts = self._best(problem, target)
        return Config(tile.values, parts=parts, chunk_mib=DEFAULT_CHUNK)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """For each part of the batch x, y and products; then the result."""
        chosen = config or self.default_config(problem, target)
        sizes = self._sizes(problem, target, chosen, workspace_limit)
        (x, y, sums), workspace = regions(*sizes.region_bytes)
        steps: list[Launch] = []
        for first in range(0, problem.x_shape[0], sizes.images):
            images = min(sizes.images, problem.x_shape[0] - first)
            if sizes.tile:  # whose parts of sums are the same in all parts of the batch
                steps.append(self._blocks(sizes, (first, images), x, y))
                steps.append(sizes.stream.launch(y, x, sums, add=first > 0))
                continue
            part = replace(sizes, images=images)
            steps += (
                self._tiles(part, first, Memory.X, x),
                self._tiles(part, first, Memory.Y, y),
                _multiplied(part, Tile.of(chosen), x, y, sums, add=first > 0),
            )
        steps.append(self._result(sizes, sums))
        return ConvSolution(self.solver_id, tuple(steps), workspace=workspace, config=chosen)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The time of products, of transforms and of launches."""
        seconds, _, _ = self._best(problem, target)
        sizes = self._sizes(problem, target, self.default_config(problem, target), None)
        batches = -(-problem.x_shape[0] // sizes.images)
        x, y, sums = sizes.region_bytes
        moved = problem.traffic + batches * (x + y) + 2 * sums
        launches = 1 + (2 if sizes.tile else 3) * batches
        return index(problem, target, seconds, moved, launches)

    def _sizes(
        self, problem: ConvProblem, target: Target, config: Config, limit: int | None
    ) -> _Sizes:
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
        return sizes(chunk_images(problem.x_shape[0], budget, needed))

    def _best(self, problem: ConvProblem, target: Target) -> tuple[float, Tile, int]:
        sizes = _Sizes(problem, self.transform, problem.x_shape[0], self.channels_last, 1)
        product = sizes.product
        fitting = tuple(n for n in _PARTS if n == 1 or product.depth >= n * _SHORTEST)
        bandwidth = UNIT_BANDWIDTH * target.compute_units
        moved = 2 * sizes.region_bytes[2] / bandwidth
        found = [product.best(target, fitting, moved + _PART_SECONDS)]
        for tile in stream_tiles(problem, target):
            stream = replace(sizes, tile=tile, units=target.compute_units).stream
            found.append((stream.seconds + 2 * stream.sums_bytes / bandwidth, tile, 1))
        return min(found, key=lambda choice: choice[0])

    def _largest(self, problem: ConvProblem) -> int:
        sizes = _Sizes(problem, self.transform, 1, self.channels_last, 1)
        image = max(problem.elements(name) for name in "xy") // problem.x_shape[0]
        points = max(sizes.region_bytes) // (4 * sizes.points)
        filled_up = problem.groups * max(map(filled, (sizes.filters, sizes.channels)))
        points = max(points, filled_up * filled(prod(sizes.tiles_of_image)))
        padding = max(abs(pad) for pad in problem.padding)
        return max(image, points, problem.elements("w"), padding)

    def _tiles(self, sizes: _Sizes, first: int, memory: Memory, to: BufferArg) -> Launch:
        problem = sizes.problem
        is_x = memory is Memory.X
        channels = (sizes.channels, sizes.padded_channels)
        if not is_x:
            channels = (sizes.filters, sizes.padded_filters)
        height, width = (problem.x_shape if is_x else problem.y_shape)[2:]
        above, left = problem.padding if is_x else (0, 0)
        return self._transformed(
            KernelSpec(
                self._transforms(), "winograd_gpu_data" if is_x else "winograd_gpu_gradient"
            ),
            BufferArg(memory),
            to,
            (first, sizes.images),
            (problem.groups, *channels),
            (height, width),
            (above, left),
            (*sizes.tiles_of_image, sizes.tiles),
        )

    def _blocks(self, sizes: _Sizes, images: tuple[int, int], x: BufferArg, y: BufferArg) -> Launch:
        """Transform so many images of x and y, from a first one on."""
        problem, group_tiles = sizes.problem, _GROUP_TILES[self.channels_last]

        def groups(channels: int) -> int:
            blocks = -(-channels // (_BLOCK_GROUP // group_tiles))
            return problem.groups * blocks * (sizes.tiles // group_tiles)

        numbers = (
            *(*images, problem.groups, sizes.channels, sizes.filters),
            *(*problem.x_shape[2:], *problem.padding, *problem.y_shape[2:]),
            *(*sizes.tiles_of_image, sizes.padded_channels, sizes.padded_filters, sizes.tiles),
            groups(sizes.channels),
        )
        return Launch(
            KernelSpec(self._programs(sizes), "winograd_gpu_blocks"),
            (BufferArg(Memory.X), BufferArg(Memory.Y), x, y, *map(i32, numbers)),
            ((groups(sizes.channels) + groups(sizes.filters)) * _BLOCK_GROUP,),
            (_BLOCK_GROUP,),
        )

    def _result(self, sizes: _Sizes, sums: BufferArg) -> Launch:
        problem = sizes.problem
        group = _CHANNELS * self.transform.n
        across = -(-sizes.channels // _CHANNELS) * group
        _, w_channel, _, w_tap = problem.strides("w")
        where = (sums, BufferArg(Memory.W), f32(problem.alpha), f32(problem.beta))
        if sizes.tile:
            stream = sizes.stream
            numbers = (
                *(problem.groups, sizes.filters, sizes.channels, w_channel, w_tap),
                *(stream.pairs, *stream.share),
            )
            return Launch(
                KernelSpec(self._programs(sizes), "winograd_gpu_weights"),
                (*where, *map(i32, numbers)),
                (across, -(-sizes.filters // _OWN_FILTERS), problem.groups),
                (group, 1, 1),
            )
        return Launch(
            KernelSpec(self._programs(sizes), "winograd_gpu_weights"),
            (
                *where,
                *map(i32, (sizes.parts, problem.w_shape[0], sizes.channels)),
                *map(i32, (sizes.padded_channels, w_channel, w_tap)),
            ),
            (across, problem.w_shape[0]),
            (group, 1),
        )

    def _programs(self, sizes: _Sizes) -> Program:
        """The transforms' program."""
        if not sizes.tile:
            return self._transforms()
        return self._transforms(BLOCKS=1, TILE_M=sizes.tile.tile_m, TILE_N=sizes.tile.tile_n)


def _multiplied(
    sizes: _Sizes, tile: Tile, x: BufferArg, y: BufferArg, sums: BufferArg, *, add: bool
) -> Launch:
    last = sizes.channels_last
    rows, columns = sizes.padded_filters, sizes.padded_channels
    a = Operand(y, rows if last else sizes.tiles, rows * sizes.tiles, along_depth=not last)
    b = Operand(x, columns if last else sizes.tiles, columns * sizes.tiles, along_depth=not last)
    return sizes.product.launch(
        tile, a, b, sums, parts=sizes.parts, add=add, products=tensor_core_products(sizes.problem)
    )
