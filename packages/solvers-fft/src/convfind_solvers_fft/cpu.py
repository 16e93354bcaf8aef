"""What the FFT solvers for CPUs have in common: which problems they take, and which tiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import log2
from types import MappingProxyType
from typing import ClassVar

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config, ConfigValue
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import Parameter, SearchSpace
from convfind.solver import TunableSolver
from convfind.target import DeviceKind, Target
from convfind.types import Algorithm, Direction
from convfind_solvers_fft.applicability import error_factor, error_reach, judge, tile_sizes
from convfind_solvers_fft.codegen import SIZES
from convfind_solvers_fft.geometry import Tiling, geometry

VECTOR = 16
#: The kernels count elements of an image and tiles in 32 bits.
_LARGEST = 2**30


def padded(size: int, unit: int) -> int:
    """Round up to a multiple."""
    return -(-size // unit) * unit


def transform_operations(tile: int) -> float:
    """Operations of the transform of a tile of one channel."""
    return 2.5 * tile**2 * log2(tile**2)


class CpuSolver(TunableSolver):
    """A float32 convolution in one direction and one family of layouts."""

    kind: ClassVar[str]  # in the solver's id
    algorithm = Algorithm.FFT
    is_dynamic = True
    backends = ("opencl",)
    own_parameters: ClassVar[tuple[Parameter, ...]] = ()
    own_defaults: ClassVar[Mapping[str, ConfigValue]] = MappingProxyType({})

    def __init__(self, direction: Direction, *, channels_last: bool) -> None:
        """Take the variant, which gives the solver its id."""
        self.direction = direction
        self.channels_last = channels_last
        layout = "nhwc" if channels_last else "nchw"
        self.solver_id = f"fft-{self.kind}-{layout}-{direction.short}"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take large filters of stride 1 on packed float32 tensors, on CPUs."""
        if target.kind is not DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for CPUs")
        answer = judge(problem, self.direction, channels_last=self.channels_last)
        if not answer:
            return answer
        shape = geometry(problem)
        largest = max(problem.elements(name) for name in "xy") // shape.images
        tiles = Tiling(SIZES[0], (1, 1), shape.out, shape.images).tiles * SIZES[0]
        if max(largest, tiles, max(map(abs, shape.padding))) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image of {largest} elements")
        return APPLICABLE

    def error_bound(self, problem: ConvProblem) -> float:
        """That of three transforms."""
        return error_factor(problem)

    def error_reach(self, problem: ConvProblem) -> int:
        """A tile's."""
        return error_reach(problem)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Direct operations over those that are expected to take as long."""
        tile = self.default_config(problem, target).integer("tile")
        return problem.flops / self._operations(problem, target, tile)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Sizes of tiles, and what a solver has beside."""
        tile = Parameter("tile", tile_sizes(problem.filter), "side of a tile")
        return SearchSpace((tile, *self.own_parameters))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile that is expected to take least time."""
        tile = min(
            tile_sizes(problem.filter), key=lambda tile: self._operations(problem, target, tile)
        )
        return Config(self.own_defaults, tile=tile)

    @abstractmethod
    def _operations(self, problem: ConvProblem, target: Target, tile: int) -> float:
        """Operations at the peak that are expected to take as long."""
