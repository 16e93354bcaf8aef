"""What the FFT solvers for GPUs have in common: which problems they take, and which tiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import TunableSolver
from convfind.target import DeviceKind, Target
from convfind.types import Algorithm, Direction
from convfind_solvers_fft.applicability import LEAST_STEP, error_factor, error_reach, judge
from convfind_solvers_fft.geometry import Tiling, geometry

#: The kernels count elements of an image, tiles and matrices in 32 bits.
_LARGEST = 2**30
#: Of one unit of an H200: FLOP/s at the peak, and bytes/s of memory.
_UNIT_PEAK = 507e9
_UNIT_BANDWIDTH = 30e9
#: A launch, and the end of the one before it.
_LAUNCH_SECONDS = 3e-6


class GpuSolver(TunableSolver):
    """A float32 convolution in one direction, channels first."""

    kind: ClassVar[str]  # in the solver's id
    channels_last = False
    #: Tiles, and how many of them a work-group has.
    units: ClassVar[Mapping[int, int]]
    algorithm = Algorithm.FFT
    is_dynamic = True
    backends = ("opencl", "hip")

    def __init__(self, direction: Direction) -> None:
        """Take the variant, which gives the solver its id."""
        self.direction = direction
        self.solver_id = f"fft-{self.kind}-nchw-{direction.short}"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take large filters of stride 1 on packed float32 tensors, on GPUs."""
        if target.kind is DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for GPUs")
        answer = judge(problem, self.direction, channels_last=self.channels_last)
        if not answer:
            return answer
        if not (tiles := self._tiles(problem)):
            most = max(self.units) + 1 - LEAST_STEP
            return Rejected(Reason.FILTER_SIZE, f"is for filters of up to {most}")
        local = max(map(self.local_bytes, tiles))
        if local > target.local_memory:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {local} bytes")
        shape = geometry(problem)
        largest = max(problem.elements(name) for name in "xy") // shape.images
        points = Tiling(min(self.units), (1, 1), shape.out, shape.images).tiles * min(self.units)
        largest = max(largest, points, problem.elements("w"), max(map(abs, shape.padding)))
        if largest > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image or a matrix of {largest} elements")
        return APPLICABLE

    def error_bound(self, problem: ConvProblem) -> float:
        """That of three transforms."""
        return error_factor(problem)

    def error_reach(self, problem: ConvProblem) -> int:
        """A tile's."""
        return error_reach(problem)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Direct operations over the time of products, of memory and of launches."""
        tile = self._best_tile(problem, target)
        seconds = self._seconds(problem, target, tile)
        return problem.flops / (_UNIT_PEAK * target.compute_units * seconds)

    def local_bytes(self, tile: int) -> int:
        """Local memory of a work-group that transforms."""
        return 4 * self.units[tile] * (tile * (tile + 1) + 31)

    def _tiles(self, problem: ConvProblem) -> tuple[int, ...]:
        largest = max(problem.filter)
        return tuple(tile for tile in self.units if tile + 1 - largest >= LEAST_STEP)

    def _best_tile(self, problem: ConvProblem, target: Target) -> int:
        return min(self._tiles(problem), key=lambda tile: self._seconds(problem, target, tile))

    def _seconds(self, problem: ConvProblem, target: Target, tile: int) -> float:
        operations, moved, launches = self._cost(problem, tile)
        units = target.compute_units
        return (
            operations / (_UNIT_PEAK * units)
            + moved / (_UNIT_BANDWIDTH * units)
            + launches * _LAUNCH_SECONDS
        )

    @abstractmethod
    def _cost(self, problem: ConvProblem, tile: int) -> tuple[float, float, int]:
        """Operations at the peak, bytes moved, and launches."""
