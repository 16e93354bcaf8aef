"""FFT convolution on CPUs with matrix products of spectra: what all directions share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Self

from convfind.device.target import Target
from convfind.kit.blocks import COMPLEX, Epilogue, Grid, even_length, round_up
from convfind.kit.plane_geometry import PlaneGeometry, plane_geometry
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Memory, i64
from convfind.solver.search_space import Parameter
from convfind_solvers_fft.applicability import judge_dense
from convfind_solvers_fft.cpu import VECTOR, CpuSolver, transform_operations
from convfind_solvers_fft.geometry import Tiling
from convfind_solvers_fft.programs import CPU

#: Points lie so many floats more apart than they need: a cache line.
SKEW = 16
#: The share of the peak that transforms to and from memory reach.
_TRANSFORM_SHARE = 0.14
_DEFAULT_CHUNK = 64
_CHUNK = Parameter("chunk_mib", (4, 16, _DEFAULT_CHUNK, 256), "most memory of a part of the tiles")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The transformed tensors of so many tiles."""

    shape: PlaneGeometry
    tiling: Tiling
    count: int
    panel: int

    @classmethod
    def one(cls, problem: ConvProblem, target: Target, config: Config) -> Self:
        """Return those of one tile."""
        shape = plane_geometry(problem)
        panel = COMPLEX.of(target)[1] * VECTOR
        return cls(shape, Tiling(config.integer("tile"), shape), 1, panel)

    def of(self, count: int) -> Self:
        """Return those of another number of tiles."""
        return replace(self, count=count)

    def evenly(self, most: int) -> Self:
        """Return those of as many tiles as are in parts of at most so many, and of one at least."""
        return self.of(even_length(self.tiling.tiles, max(1, most)))

    @property
    def panels(self) -> int:
        """Filters of a group, with what the last panel has beyond them."""
        return round_up(self.shape.filters, self.panel)

    @property
    def values_pitch(self) -> int:
        """Channels of all groups, filled up."""
        return round_up(self.shape.groups * self.shape.channels, VECTOR)

    @property
    def sums_pitch(self) -> int:
        """Filters of all groups, and what the last panel has beyond them."""
        before = (self.shape.groups - 1) * self.shape.filters
        return round_up(before + self.panels, VECTOR)

    @property
    def values_point(self) -> int:
        """Floats from a point of the data to the next."""
        return self.count * 2 * self.values_pitch + SKEW

    @property
    def sums_point(self) -> int:
        """Floats from a point of the results, or their gradients, to the next."""
        return self.count * 2 * self.sums_pitch + SKEW


class ProductsSolver(CpuSolver):
    """Float32, in one family of layouts; the tiles in parts of so much memory."""

    prefix = "fft-cpu"
    file: ClassVar[str]  # of the kernels
    #: Tiles whose products take as long as what else is done with weights.
    beside_tiles: ClassVar[int] = 0
    own_parameters: ClassVar[tuple[Parameter, ...]] = (_CHUNK,)
    own_defaults = MappingProxyType({_CHUNK.name: _DEFAULT_CHUNK})

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take groups of some channels and filters, else as `CpuSolver`."""
        return judge_dense(problem) and super().applicability(problem, target)

    def _operations(self, problem: ConvProblem, target: Target, tiling: Tiling) -> float:
        shape = tiling.shape
        channels, filters = shape.groups * shape.channels, shape.groups * shape.filters
        lanes = round_up(channels, VECTOR) + round_up(filters, VECTOR)
        weights = channels * round_up(shape.filters, COMPLEX.of(target)[1] * VECTOR)
        products = 8.0 * weights * tiling.points
        return transform_operations(tiling.tile) / _TRANSFORM_SHARE * (
            tiling.tiles * lanes + weights
        ) + products * (tiling.tiles + self.beside_tiles)

    def _program(self, target: Target, tile: int, epilogue: Epilogue) -> Program:
        rows, vectors = COMPLEX.of(target)
        return CPU.program(
            *(self.file, epilogue.defines),
            TILE=tile,
            CHANNELS_LAST=self.channels_last,
            ROWS=rows,
            VECTORS=vectors,
        )

    @staticmethod
    def _data(program: Program, sizes: Sizes, first: int) -> Launch:
        """Transform tiles of the source, from the first one on."""
        shape, tiling = sizes.shape, sizes.tiling
        return Grid(program, "fft_cpu_data", (sizes.count, sizes.values_pitch // VECTOR))(
            *(shape.source, Memory.WORKSPACE),
            *(shape.images, shape.groups * shape.channels, *shape.size, first),
            *(*tiling.tiles_of_image, *tiling.step, *shape.padding),
            *(tiling.tile, tiling.tile, sizes.values_pitch),
            *(i64(sizes.values_point), 0),
        )
