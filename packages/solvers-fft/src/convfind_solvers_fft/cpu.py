"""The base of the FFT solvers for CPUs: which problems they take, and which tiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import log2
from types import MappingProxyType
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import cpu_index
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, CPUS, Applicability, Config, ConfigValue, Reason, Rejected
from convfind.solver.search_space import Parameter, SearchSpace
from convfind_solvers_fft.applicability import DOMAIN, largest_number
from convfind_solvers_fft.codegen import SIZES
from convfind_solvers_fft.geometry import Tiling, useful_tilings
from convfind_solvers_fft.solver import FftSolver

VECTOR = 16
#: The kernels count elements of an image and tiles in 32 bits.
_LARGEST = 2**30


def transform_operations(tile: int) -> float:
    """Operations of the transform of a tile of one channel."""
    return 2.5 * tile**2 * log2(tile**2)


class CpuSolver(FftSolver):
    """A float32 convolution in one direction and one family of layouts."""

    #: The share of the peak that other families reach on the problems that both take.
    direct_share: ClassVar[float]
    domain = replace(DOMAIN, kinds=CPUS)
    backends = ("opencl",)
    own_parameters: ClassVar[tuple[Parameter, ...]] = ()
    own_defaults: ClassVar[Mapping[str, ConfigValue]] = MappingProxyType({})

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take sizes that the kernels can count, and filters that fit a tile."""
        if (largest := largest_number(problem)) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image of {largest} elements")
        if not (tilings := useful_tilings(problem, SIZES)):
            return Rejected(Reason.FILTER_SIZE, f"fits no tile of {SIZES[-1]}")
        share = self._share(problem, target, tilings)
        if share < self.direct_share:
            return Rejected(
                Reason.FILTER_SIZE,
                f"is expected at {share:.2f} of the peak, kernels that do not transform at"
                f" {self.direct_share}",
            )
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float:
        """Direct operations over those that are expected to take as long."""
        return self._share(problem, target, useful_tilings(problem, SIZES))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Sizes of tiles, and what a solver has beside."""
        sizes = tuple(tiling.tile for tiling in useful_tilings(problem, SIZES))
        return SearchSpace((Parameter("tile", sizes, "side of a tile"), *self.own_parameters))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile that is expected to take least time."""
        tiling = min(
            useful_tilings(problem, SIZES),
            key=lambda tiling: self._operations(problem, target, tiling),
        )
        return Config(self.own_defaults, tile=tiling.tile)

    def _share(self, problem: ConvProblem, target: Target, tilings: Iterable[Tiling]) -> float:
        least = min(self._operations(problem, target, tiling) for tiling in tilings)
        return cpu_index(problem, target, least, launches=2)

    @abstractmethod
    def _operations(self, problem: ConvProblem, target: Target, tiling: Tiling) -> float:
        """Operations at the peak that are expected to take as long."""
