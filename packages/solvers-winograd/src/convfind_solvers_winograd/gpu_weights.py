"""Winograd convolution on GPUs: the weight gradient."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from convfind.config import Config
from convfind.kernel_spec import KernelSpec
from convfind.problem import ConvProblem
from convfind.search_space import Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, align, f32, i32
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

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
#: Sums are not split into parts shorter than this.
_SHORTEST = 128
#: What reading a part takes beside its bytes.
_PART_SECONDS = 0.7e-6
_CHANNELS = 32  # of a work-group of the result's transform


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The transformed tensors of so many images, and the sums of products."""

    problem: ConvProblem
    transform: Transform
    images: int
    channels_last: bool
    parts: int

    @property
    def filters(self) -> int:
        return self.problem.w_shape[0] // self.problem.groups

    @property
    def channels(self) -> int:
        return self.problem.w_shape[1]

    @property
    def padded_filters(self) -> int:
        return padded(self.filters, ROW_UNIT)

    @property
    def padded_channels(self) -> int:
        return padded(self.channels, ROW_UNIT)

    @property
    def tiles_of_image(self) -> tuple[int, int]:
        height, width = (-(-size // self.transform.r) for size in self.problem.y_shape[2:])
        return height, width

    @property
    def tiles(self) -> int:
        return padded(self.images * prod(self.tiles_of_image), DEPTH_UNIT)

    @property
    def points(self) -> int:
        return self.transform.n**2

    @property
    def region_bytes(self) -> tuple[int, int, int]:
        """Of x, of y, and of the sums."""
        one = 4 * self.points * self.problem.groups
        return (
            one * self.padded_channels * self.tiles,
            one * self.padded_filters * self.tiles,
            one * self.filters * self.padded_channels * self.parts,
        )

    @property
    def product(self) -> Product:
        matrices = self.points * self.problem.groups
        return Product(matrices, self.filters, self.channels, self.tiles)


class WeightsSolver(GpuSolver):
    """w from x and y."""

    def __init__(self, transform: Transform, *, channels_last: bool) -> None:
        """Take the variant."""
        super().__init__(transform, Direction.BACKWARD_WEIGHTS, channels_last=channels_last)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of x and y of a part of the batch, and of the products."""
        sizes = self._sizes(problem, self.default_config(problem, target), limit)
        return regions(*sizes.region_bytes)[1]

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles of the product, parts of its sum, and parts of the batch."""
        parts = Parameter("parts", _PARTS, "parts of the sum, computed side by side")
        return SearchSpace((*PARAMETERS, parts, CHUNK), constraints(target))

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
        sizes = self._sizes(problem, chosen, workspace_limit)
        (x, y, sums), workspace = regions(*sizes.region_bytes)
        steps: list[Launch] = []
        for first in range(0, problem.x_shape[0], sizes.images):
            images = min(sizes.images, problem.x_shape[0] - first)
            part = _Sizes(problem, self.transform, images, self.channels_last, sizes.parts)
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
        sizes = self._sizes(problem, self.default_config(problem, target), None)
        batches = -(-problem.x_shape[0] // sizes.images)
        x, y, sums = sizes.region_bytes
        moved = problem.traffic + batches * (x + y) + 2 * sums
        return index(problem, target, seconds, moved, 1 + 3 * batches)

    def _sizes(self, problem: ConvProblem, config: Config, limit: int | None) -> _Sizes:
        """Parts of the batch that fit; under a limit also fewer parts of the sum."""
        parts = config.integer("parts")

        def sizes(images: int) -> _Sizes:
            return _Sizes(problem, self.transform, images, self.channels_last, parts)

        def needed(images: int) -> int:
            return sum(map(align, sizes(images).region_bytes))

        budget = config.integer("chunk_mib") << 20
        if limit is not None:
            budget = min(budget, limit)
            while parts > 1 and needed(1) > budget:
                parts //= 2
        return sizes(chunk_images(problem.x_shape[0], budget, needed))

    def _best(self, problem: ConvProblem, target: Target) -> tuple[float, Tile, int]:
        sizes = _Sizes(problem, self.transform, problem.x_shape[0], self.channels_last, 1)
        product = sizes.product
        fitting = tuple(n for n in _PARTS if n == 1 or product.depth >= n * _SHORTEST)
        moved = 2 * sizes.region_bytes[2] / (UNIT_BANDWIDTH * target.compute_units)
        return product.best(target, fitting, moved + _PART_SECONDS)

    def _largest(self, problem: ConvProblem) -> int:
        sizes = _Sizes(problem, self.transform, 1, self.channels_last, 1)
        image = max(problem.elements(name) for name in "xy") // problem.x_shape[0]
        points = max(sizes.region_bytes) // (4 * sizes.points)
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

    def _result(self, sizes: _Sizes, sums: BufferArg) -> Launch:
        problem = sizes.problem
        group = _CHANNELS * self.transform.n
        _, w_channel, _, w_tap = problem.strides("w")
        return Launch(
            KernelSpec(self._transforms(), "winograd_gpu_weights"),
            (
                sums,
                BufferArg(Memory.W),
                f32(problem.alpha),
                f32(problem.beta),
                *map(i32, (sizes.parts, problem.w_shape[0], sizes.channels)),
                *map(i32, (sizes.padded_channels, w_channel, w_tap)),
            ),
            (-(-sizes.channels // _CHANNELS) * group, problem.w_shape[0]),
            (group, 1),
        )


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
