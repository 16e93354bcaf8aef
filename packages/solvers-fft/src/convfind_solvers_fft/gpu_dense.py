"""FFT convolution on GPUs with matrix products of spectra: forward and the data gradient."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from convfind.applicability import Applicability
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, align, f32, i32, i64
from convfind.target import Target
from convfind_solvers_fft.applicability import judge_dense
from convfind_solvers_fft.cpu import padded
from convfind_solvers_fft.geometry import Geometry, Tiling, geometry
from convfind_solvers_fft.gpu import GpuSolver

#: Real matrices of a point: products of complex numbers by three of real ones.
_PARTS = 3
#: What the product reads at a time.
_UNIT = 4
_TILE_K = 16
_DEFAULT_CHUNK = 512
#: Share of the peak that products reach.
_PRODUCT_SHARE = 0.55
#: Sides of the product's tiles, and items along them.
_THREADS = MappingProxyType({32: 8, 64: 8, 128: 16})
_SIDES = tuple(_THREADS)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The transformed tensors of so many tiles."""

    shape: Geometry
    tiling: Tiling
    count: int

    @property
    def matrices(self) -> int:
        """Real matrices: of all points and groups."""
        return self.tiling.points * _PARTS * self.shape.groups

    @property
    def pitch(self) -> int:
        """Elements of a row of tiles."""
        return padded(self.count, _UNIT)

    @property
    def filters(self) -> int:
        """Elements of a row of filters."""
        return padded(self.shape.filters, _UNIT)

    @property
    def values_bytes(self) -> int:
        """Bytes of the data."""
        return 4 * self.matrices * self.shape.channels * self.pitch

    @property
    def sums_bytes(self) -> int:
        """Bytes of the products."""
        return 4 * self.matrices * self.shape.filters * self.pitch

    @property
    def bytes(self) -> int:
        """Bytes of data and products."""
        return align(self.values_bytes) + self.sums_bytes

    @property
    def packed_bytes(self) -> int:
        """Bytes of the weights."""
        return 4 * self.matrices * self.shape.channels * self.filters


class GpuDenseSolver(GpuSolver):
    """A float32 convolution in one direction, channels first."""

    kind = "gpu"
    units = MappingProxyType({16: 8, 24: 8, 32: 8})

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take groups of some channels and filters, else as `GpuSolver`."""
        return judge_dense(problem) and super().applicability(problem, target)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the transformed weights, and of data and products of a part of the tiles."""
        sizes = self._sizes(problem, self.default_config(problem, target), limit)
        return align(sizes.bytes) + sizes.packed_bytes

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles of the transforms and of the product, and parts of the tiles."""
        return SearchSpace(
            (
                Parameter("tile", self._tiles(problem), "side of a tile"),
                Parameter("tile_m", _SIDES, "filters of a product's work-group"),
                Parameter("tile_n", _SIDES, "tiles of a product's work-group"),
                Parameter("chunk_mib", (64, 128, 256, _DEFAULT_CHUNK, 1024), "most memory"),
            ),
            (
                Constraint(
                    "work-group",
                    lambda config: _threads(config) <= target.max_work_group,
                    f"a work-group has at most {target.max_work_group} items",
                ),
            ),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tiles that are expected to take least time."""
        tile = self._best_tile(problem, target)
        tiling = self._tiling(problem, tile)
        return Config(
            tile=tile,
            tile_m=_side(geometry(problem).filters),
            tile_n=_side(tiling.tiles),
            chunk_mib=_DEFAULT_CHUNK,
        )

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch for the weights; for each part of the tiles: data, products, result."""
        config = config or self.default_config(problem, target)
        sizes = self._sizes(problem, config, workspace_limit)
        values = BufferArg(Memory.WORKSPACE)
        sums = BufferArg(Memory.WORKSPACE, align(sizes.values_bytes))
        steps: list[Launch] = []
        for first in range(0, sizes.tiling.tiles, sizes.count):
            count = min(sizes.count, sizes.tiling.tiles - first)
            part = Sizes(sizes.shape, sizes.tiling, count)
            steps += (
                self._data(part, first, values),
                _product(part, config, values, sums),
                self._result(part, first, sums, problem),
            )
        return ConvSolution(
            self.solver_id,
            tuple(steps),
            prepare=(self._filter(sizes),),
            workspace=sizes.bytes,
            packed=sizes.packed_bytes,
            config=config,
        )

    def _tiling(self, problem: ConvProblem, tile: int) -> Tiling:
        shape = geometry(problem)
        return Tiling(tile, shape.window, shape.out, shape.images)

    def _sizes(self, problem: ConvProblem, config: Config, limit: int | None) -> Sizes:
        shape, tiling = geometry(problem), self._tiling(problem, config.integer("tile"))
        least = Sizes(shape, tiling, min(_UNIT, tiling.tiles))
        budget = config.integer("chunk_mib") << 20
        if limit is not None:
            budget = min(budget, limit - least.packed_bytes - 2 * align(1))
        most = max(least.count, budget // least.bytes * _UNIT)
        parts = -(-tiling.tiles // most)
        return Sizes(shape, tiling, min(most, padded(-(-tiling.tiles // parts), _UNIT)))

    def _cost(self, problem: ConvProblem, tile: int) -> tuple[float, float, int]:
        sizes = Sizes(geometry(problem), self._tiling(problem, tile), 1)
        shape, tiling = sizes.shape, sizes.tiling
        rows = padded(shape.filters, _side(shape.filters))
        columns = padded(tiling.tiles, _side(tiling.tiles))
        products = 2.0 * sizes.matrices * shape.channels * rows * columns
        numbers = 4.0 * sizes.matrices * tiling.tiles * (shape.channels + shape.filters)
        moved = 2 * numbers + problem.traffic + 2 * sizes.packed_bytes
        parts = 1 + int(numbers) // (_DEFAULT_CHUNK << 20)
        return products / _PRODUCT_SHARE, moved, 1 + 3 * parts

    def _program(self, tile: int) -> Program:
        return Program(
            KernelSource("convfind_solvers_fft", "kernels/gpu_dense.cl"),
            defines=make_defines(TILE=tile, UNITS=self.units[tile]),
        )

    def _launch(
        self, entry: str, sizes: Sizes, count: int, channels: int, *arguments: object
    ) -> Launch:
        tile = sizes.tiling.tile
        units = self.units[tile]
        group = units * tile // 2
        return Launch(
            KernelSpec(self._program(tile), entry),
            arguments,  # type: ignore[arg-type]
            (-(-count // units) * group, channels),
            (group, 1),
        )

    def _filter(self, sizes: Sizes) -> Launch:
        shape = sizes.shape
        group, filters, channels, tap = shape.weight_steps
        return self._launch(
            "fft_gpu_filter",
            sizes,
            sizes.filters,
            shape.groups * shape.channels,
            BufferArg(Memory.W),
            BufferArg(Memory.PACKED),
            *map(i32, (shape.filters, shape.channels, *shape.window, sizes.filters)),
            i64(shape.groups * shape.channels * sizes.filters),
            *map(i64, (group, filters, channels)),
            *map(i32, (tap, int(shape.flipped))),
        )

    def _data(self, sizes: Sizes, first: int, values: BufferArg) -> Launch:
        shape, tiling = sizes.shape, sizes.tiling
        channels = shape.groups * shape.channels
        return self._launch(
            "fft_gpu_data",
            sizes,
            sizes.pitch,
            channels,
            BufferArg(shape.source),
            values,
            *map(i32, (channels, *shape.size, first, sizes.count)),
            *map(i32, (*tiling.tiles_of_image, *tiling.step, *shape.padding, sizes.pitch)),
            i64(channels * sizes.pitch),
        )

    def _result(self, sizes: Sizes, first: int, sums: BufferArg, problem: ConvProblem) -> Launch:
        shape, tiling = sizes.shape, sizes.tiling
        filters = shape.groups * shape.filters
        return self._launch(
            "fft_gpu_result",
            sizes,
            sizes.count,
            filters,
            sums,
            BufferArg(shape.result),
            f32(problem.alpha),
            f32(problem.beta),
            *map(i32, (filters, *shape.out, first, sizes.count)),
            *map(i32, (*tiling.tiles_of_image, *tiling.step, sizes.pitch)),
            i64(filters * sizes.pitch),
        )


def _product(sizes: Sizes, config: Config, values: BufferArg, sums: BufferArg) -> Launch:
    shape = sizes.shape
    tile_m, tile_n = config.integer("tile_m"), config.integer("tile_n")
    program = Program(
        KernelSource("convfind_solvers_fft", "kernels/gpu_product.cl"),
        defines=make_defines(
            TILE_M=tile_m,
            TILE_N=tile_n,
            TILE_K=_TILE_K,
            THREADS_M=_THREADS[tile_m],
            THREADS_N=_THREADS[tile_n],
        ),
    )
    threads = _threads(config)
    count = sizes.matrices * -(-shape.filters // tile_m) * -(-sizes.count // tile_n)
    return Launch(
        KernelSpec(program, "fft_gpu_product"),
        (
            BufferArg(Memory.PACKED),
            values,
            sums,
            *map(i32, (shape.filters, sizes.count, shape.channels)),
            *map(i32, (sizes.filters, sizes.pitch)),
            i64(shape.channels * sizes.filters),
            i64(shape.channels * sizes.pitch),
            i64(shape.filters * sizes.pitch),
        ),
        (count * threads,),
        (threads,),
    )


def _threads(config: Config) -> int:
    return _THREADS[config.integer("tile_m")] * _THREADS[config.integer("tile_n")]


def _side(size: int) -> int:
    """The side of a product's tile that suits so many rows; the largest was never the best."""
    return _SIDES[0] if size <= _SIDES[0] else _SIDES[1]
