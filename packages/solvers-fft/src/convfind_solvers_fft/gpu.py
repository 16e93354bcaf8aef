"""The base of the FFT solvers for GPUs: which problems they take, which tiles, views."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import memory_seconds, peak_seconds
from convfind.kit.plane_geometry import plane_geometry
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, GPUS, Applicability, Reason, Rejected
from convfind.types import Direction
from convfind_solvers_fft.applicability import DOMAIN, largest_number
from convfind_solvers_fft.geometry import Tiling, useful_tilings
from convfind_solvers_fft.solver import FftSolver
from convfind_solvers_fft.view import View, view_of_images, view_of_weights

#: Its rows are 128 numbers: too many for AMD's older GPUs, which have 256 registers for all.
_LARGEST_TILE = 64
#: The kernels count elements of an image, tiles and matrices in 32 bits.
_LARGEST = 2**30
_BANDWIDTH_SHARE = 0.825
#: A launch, and the end of the one before it.
_LAUNCH_SECONDS = 3e-6


class GpuSolver(FftSolver):
    """A float32 convolution in one direction and one family of layouts."""

    #: Tiles, and how many of them a work-group has.
    units: ClassVar[Mapping[int, int]]
    buffers = 1  # tiles that a unit has in local memory
    domain = replace(DOMAIN, kinds=GPUS)
    backends = ("opencl", "hip", "cuda")

    @property
    def sums_tiles(self) -> bool:
        """True if products are summed over tiles: the weight gradient's."""
        return self.direction is Direction.BACKWARD_WEIGHTS

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take sizes that the kernels can count, and filters that fit a tile."""
        if not (tiles := self._tiles(problem, target)):
            return Rejected(Reason.FILTER_SIZE, f"fits no tile of {max(self.units)}")
        local = max(map(self.local_bytes, tiles))
        if local > target.local_memory:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {local} bytes")
        if (largest := max(largest_number(problem), problem.elements("w"))) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image or a matrix of {largest} elements")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Direct operations over the time of products, of memory and of launches."""
        tile = self._best_tile(problem, target)
        seconds = self._seconds(problem, target, tile)
        return peak_seconds(problem.flops, target) / seconds

    def local_bytes(self, tile: int) -> int:
        """Local memory of a work-group that transforms."""
        return 4 * self.buffers * self.units[tile] * (tile * (tile + 1) + 31)

    def views(self, problem: ConvProblem, tiling: Tiling) -> tuple[View, View, View]:
        """Return the data, what it is multiplied by, and the result.

        The weight gradient correlates the data with tiles of y as large as their results in a
        forward convolution.
        """
        shape = plane_geometry(problem)
        whole = (tiling.tile, tiling.tile)
        data = view_of_images(problem, shape.source, shape.channels, tiling, shape.padding, whole)
        result = view_of_images(problem, shape.result, shape.filters, tiling, (0, 0), tiling.step)
        weights = view_of_weights(problem, shape)
        return (data, result, weights) if self.sums_tiles else (data, weights, result)

    def _tiles(self, problem: ConvProblem, target: Target) -> tuple[int, ...]:
        few = target.is_amd and not target.has("mfma")
        sizes = tuple(size for size in self.units if size < _LARGEST_TILE or not few)
        return tuple(tiling.tile for tiling in useful_tilings(problem, sizes))

    def _best_tile(self, problem: ConvProblem, target: Target) -> int:
        return min(
            self._tiles(problem, target), key=lambda tile: self._seconds(problem, target, tile)
        )

    def _seconds(self, problem: ConvProblem, target: Target, tile: int) -> float:
        operations, moved, launches = self._cost(problem, tile)
        return (
            peak_seconds(operations, target)
            + memory_seconds(moved, target, _BANDWIDTH_SHARE)
            + launches * _LAUNCH_SECONDS
        )

    @abstractmethod
    def _cost(self, problem: ConvProblem, tile: int) -> tuple[float, float, int]:
        """Operations at the peak, bytes moved, and launches."""
