"""FFT convolution on GPUs with matrix products of spectra, in all directions."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from convfind.device.target import Target
from convfind.kit.blocks import NO_EPILOGUE, Epilogue, Grid, Limit, pieces, round_up
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, Recipe, align, i32, i64
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind_solvers_fft.applicability import judge_dense
from convfind_solvers_fft.geometry import Tiling, tiling_of
from convfind_solvers_fft.gpu import GpuSolver
from convfind_solvers_fft.programs import GPU
from convfind_solvers_fft.view import View

#: Real matrices of a point: products of complex numbers by three of real ones.
_PARTS = 3
#: The product reads so many numbers at a time.
_UNIT = 4
_TILE_K = 16
_DEFAULT_CHUNK = 512
#: Share of the peak that products reach.
_PRODUCT_SHARE = 0.55
#: Sides of the product's tiles, and items along them.
_THREADS = MappingProxyType({32: 8, 64: 8, 128: 16})
_SIDES = tuple(_THREADS)


@dataclass(frozen=True, slots=True)
class Spectra:
    """Some tiles of a tensor, transformed: [point, part][group][line][unit]."""

    view: View
    memory: str
    offset: int  # bytes
    points: int
    groups: int
    images: int
    channels_last: bool

    @property
    def lines(self) -> int:
        """Channels of a group, or where these are last tiles or filters."""
        return self.images if self.channels_last else self.view.channels

    @property
    def units(self) -> int:
        """The others."""
        return self.view.channels if self.channels_last else self.images

    @property
    def pitch(self) -> int:
        """Elements of a line."""
        return round_up(self.units, _UNIT)

    @property
    def matrix(self) -> int:
        """Elements of a group."""
        return self.lines * self.pitch

    @property
    def part(self) -> int:
        """Elements from a part to the next."""
        return self.groups * self.matrix

    @property
    def bytes(self) -> int:
        """Bytes of it all."""
        return 4 * self.points * _PARTS * self.part

    @property
    def end(self) -> int:
        """Where something else may begin, in bytes."""
        return align(self.offset + self.bytes)

    @property
    def buffer(self) -> BufferArg:
        """The argument of a launch."""
        return BufferArg(self.memory, self.offset)


class GpuDenseSolver(GpuSolver):
    """A float32 convolution in one direction and one family of layouts."""

    prefix = "fft-gpu"
    units = MappingProxyType({16: 8, 24: 8, 32: 8})

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take groups of some channels and filters, else as `GpuSolver`."""
        return judge_dense(problem) and super().applicability(problem, target)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles of the transforms and of the product, and parts of the tiles."""
        return SearchSpace(
            (
                Parameter("tile", self._tiles(problem, target), "side of a tile"),
                Parameter("tile_m", _SIDES, "rows of a product's work-group"),
                Parameter("tile_n", _SIDES, "columns of a product's work-group"),
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
        tiling = tiling_of(problem, tile)
        data, filters, _ = self._spectra(problem, tiling, tiling.tiles)
        *_, rows, columns, _, _ = self._operands(data, filters)
        return Config(
            tile=tile, tile_m=_side(rows), tile_n=_side(columns), chunk_mib=_DEFAULT_CHUNK
        )

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """Weights to spectra; for each part of the tiles data, their product, and the result.

        The weight gradient: for each part data, y and their product, which add up; then the result.
        """
        tiling = tiling_of(problem, config.integer("tile"))
        largest = self._part(problem, config, limit)
        whole = self._spectra(problem, tiling, largest)
        steps: list[Launch] = []
        for first, count in pieces(tiling.tiles, largest):
            data, filters, result = self._spectra(problem, tiling, count)
            product = self._product(config, data, filters, result, first)
            steps.append(self._to_spectra(data, tiling, first))
            if self.sums_tiles:
                steps += (self._to_spectra(filters, tiling, first, is_filter=True), product)
            else:
                steps += (product, self._to_tensor(result, tiling, first, problem))
        if self.sums_tiles:
            steps.append(self._to_tensor(result, tiling, 0, problem))
            prepare: tuple[Launch, ...] = ()
        else:
            prepare = (self._to_spectra(filters, tiling, 0, is_filter=True),)
        return Recipe(
            self.solver_id,
            tuple(steps),
            prepare=prepare,
            workspace=max(spectra.end for spectra in whole if spectra.memory == Memory.WORKSPACE),
            packed=filters.bytes if prepare else 0,
            config=config,
        )

    def _spectra(
        self, problem: ConvProblem, tiling: Tiling, count: int
    ) -> tuple[Spectra, Spectra, Spectra]:
        """Return those of data, filters and result, of so many tiles; the result lies first."""

        def place(view: View, memory: str, offset: int) -> Spectra:
            images = view.images if view.tiling is None else count
            return Spectra(
                *(view, memory, offset, tiling.points, problem.groups, images, self.channels_last)
            )

        data_view, filters_view, result_view = self.views(problem, tiling)
        result = place(result_view, Memory.WORKSPACE, 0)
        data = place(data_view, Memory.WORKSPACE, result.end)
        if self.sums_tiles:
            return data, place(filters_view, Memory.WORKSPACE, data.end), result
        return data, place(filters_view, Memory.PACKED, 0), result

    def _part(self, problem: ConvProblem, config: Config, limit: Limit) -> int:
        """Tiles whose spectra fit the memory: those of the weights are needed anyway."""
        tiling = tiling_of(problem, config.integer("tile"))
        one, two = (
            sum(spectra.bytes for spectra in self._spectra(problem, tiling, count))
            for count in (_UNIT, 2 * _UNIT)
        )
        weights = 2 * one - two
        budget = config.integer("chunk_mib") << 20
        if limit is not None:
            budget = min(budget, limit - weights - 3 * align(1))
        most = max(1, budget // (two - one)) * _UNIT
        parts = -(-tiling.tiles // most)
        return min(tiling.tiles, round_up(-(-tiling.tiles // parts), _UNIT))

    def _operands(
        self, data: Spectra, filters: Spectra
    ) -> tuple[Spectra, Spectra, int, int, int, bool]:
        """Return a product's left and right side, rows, columns, depth, and whether depth is last.

        The sum is over what both have in common: channels, or tiles in the weight gradient.
        """
        if self.channels_last != self.sums_tiles:
            return data, filters, data.lines, filters.lines, data.units, True
        return filters, data, filters.units, data.units, data.lines, False

    def _cost(self, problem: ConvProblem, tile: int) -> tuple[float, float, int]:
        tiling = tiling_of(problem, tile)
        data, filters, result = self._spectra(problem, tiling, tiling.tiles)
        *_, rows, columns, depth, _ = self._operands(data, filters)
        area = round_up(rows, _side(rows)) * round_up(columns, _side(columns))
        products = 2.0 * _PARTS * tiling.points * problem.groups * area * depth
        numbers = data.bytes + filters.bytes + result.bytes
        parts = 1 + numbers // (_DEFAULT_CHUNK << 20)
        return products / _PRODUCT_SHARE, problem.traffic + 2.0 * numbers, 1 + 3 * parts

    def _transform(
        self,
        entry: str,
        spectra: Spectra,
        tiling: Tiling,
        first: int,
        *rest: Argument,
        epilogue: Epilogue = NO_EPILOGUE,
    ) -> Launch:
        view, units = spectra.view, self.units[tiling.tile]
        buffers = (spectra.buffer, BufferArg(view.memory))
        program = GPU.program(
            "gpu_dense",
            epilogue.defines,
            TILE=tiling.tile,
            UNITS=units,
            CHANNELS_LAST=self.channels_last,
        )
        group = units * tiling.tile // 2
        groups = spectra.groups * spectra.lines * -(-spectra.pitch // units)
        return Grid(program, entry, groups, group)(
            *buffers,
            *view.arguments,
            *view.tiles(first, spectra.images),
            *(spectra.lines, spectra.pitch, i64(spectra.part)),
            *rest,
        )

    def _to_spectra(
        self, spectra: Spectra, tiling: Tiling, first: int, *, is_filter: bool = False
    ) -> Launch:
        return self._transform("fft_gpu_spectra", spectra, tiling, first, i32(int(is_filter)))

    def _to_tensor(
        self, spectra: Spectra, tiling: Tiling, first: int, problem: ConvProblem
    ) -> Launch:
        epilogue = Epilogue.of(problem)
        return self._transform(
            "fft_gpu_tensor", spectra, tiling, first, *epilogue.arguments, epilogue=epilogue
        )

    def _product(
        self, config: Config, data: Spectra, filters: Spectra, result: Spectra, first: int
    ) -> Launch:
        left, right, rows, columns, depth, depth_last = self._operands(data, filters)
        tile_m, tile_n = config.integer("tile_m"), config.integer("tile_n")
        program = GPU.program(
            "gpu_product",
            TILE_M=tile_m,
            TILE_N=tile_n,
            TILE_K=_TILE_K,
            THREADS_M=_THREADS[tile_m],
            THREADS_N=_THREADS[tile_n],
            DEPTH_LAST=depth_last,
        )
        matrices = data.points * _PARTS * data.groups
        threads = _threads(config)
        groups = matrices * -(-rows // tile_m) * -(-columns // tile_n)
        return Grid(program, "fft_gpu_product", groups, threads)(
            *(left.buffer, right.buffer, result.buffer),
            *(rows, columns, depth),
            *(left.pitch, right.pitch, result.pitch),
            *map(i64, (left.matrix, right.matrix, result.matrix)),
            self.sums_tiles and first > 0,
        )


def _threads(config: Config) -> int:
    return _THREADS[config.integer("tile_m")] * _THREADS[config.integer("tile_n")]


def _side(size: int) -> int:
    """The side of a product's tile that suits so many rows; the largest was never the best."""
    return _SIDES[0] if size <= _SIDES[0] else _SIDES[1]
