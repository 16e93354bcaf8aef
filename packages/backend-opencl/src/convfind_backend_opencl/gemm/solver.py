"""What the GEMM solvers have in common: which problems they take, and their tuning."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from convfind.device.target import DeviceKind, Target
from convfind.kit.gemm_lowering.product import Gemm, Shape, gemm_of, whole
from convfind.problem import ConvProblem
from convfind.problem.traits import FIRST_TRAITS, Trait
from convfind.reasons import Reason
from convfind.solver import Domain, TunableSolver
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import BufferArg, Memory
from convfind.solver.search_space import SearchSpace
from convfind.types import Algorithm, DataType, Direction
from convfind_backend_opencl.gemm.cpu import CpuGemm
from convfind_backend_opencl.gemm.gpu import GpuGemm, fits, smallest_tile
from convfind_backend_opencl.gemm.kernel import GemmKernel

#: The kernels count rows, columns and positions in 32 bits.
_LARGEST = 2**31 - 1
#: Length of K that is taken for granted in a sum that can be split.
_PIECE = 256
_KERNELS = {DeviceKind.CPU: CpuGemm(), DeviceKind.GPU: GpuGemm(), DeviceKind.ACCELERATOR: GpuGemm()}


class GemmSolver(TunableSolver):
    """A float32 convolution in one direction as products of matrices."""

    direction: ClassVar[Direction]
    algorithm = Algorithm.GEMM
    is_dynamic = True
    backends = ("opencl",)
    domain = Domain(
        dtypes=(DataType.FLOAT32,), traits=FIRST_TRAITS - {Trait.GAPS, Trait.MIXED_LAYOUTS}
    )

    def __init__(self) -> None:
        self.domain = self.domain.oriented(self.direction)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take matrices that the kernels can count, on devices that have room for a tile."""
        if _may_be_large(problem) and (largest := _largest_size(problem)) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"a matrix or axis of {largest}")
        if target.kind is not DeviceKind.CPU:
            tile = smallest_tile()
            if tile.threads > target.max_work_group:
                return Rejected(Reason.WORK_GROUP, f"needs {tile.threads} work-items")
            if not fits(tile, target):
                return Rejected(Reason.LOCAL_MEMORY, f"needs {tile.local_bytes} bytes")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """As the device's kernel counts it."""
        columns = self._column_bytes(problem)
        return kernel_for(target).index(problem, target, whole_gemm(problem), columns)

    def _column_bytes(self, problem: ConvProblem) -> int:
        """Bytes of all columns."""
        return 0

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """The space of the device's GEMM kernel."""
        return kernel_for(target).search_space(target)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The config that the GEMM kernel's own rule picks."""
        gemm = whole_gemm(problem)
        if self.direction is Direction.BACKWARD_WEIGHTS:
            # However few its tiles are: the sum over images and positions is split among units.
            pieces = max(1, gemm.k // _PIECE)
            gemm = replace(gemm, k=gemm.k // pieces, outer=gemm.outer * pieces)
        return kernel_for(target).default_config(gemm, target)


def kernel_for(target: Target) -> GemmKernel:
    """Return the kernel for a kind of device."""
    return _KERNELS[target.kind]


def whole_gemm(problem: ConvProblem) -> Gemm:
    """Return the product for the whole batch at once."""
    return gemm_of(problem, whole(Shape.of(problem)), BufferArg(Memory.X))


def _may_be_large(problem: ConvProblem) -> bool:
    """A bound that is quick to compute, and true of hardly any problem."""
    pads = max(problem.padding) + max(problem.padding_end)
    return problem.traffic + problem.x_shape[1] * pads > _LARGEST


def _largest_size(problem: ConvProblem) -> int:
    """The largest number that a kernel holds in an int."""
    gemm = whole_gemm(problem)
    axes = [
        size + begin + end
        for size, begin, end in zip(
            problem.x_shape[2:], problem.padding, problem.padding_end, strict=True
        )
    ]
    line = problem.x_shape[1] * axes[-1]  # channels last, the kernels count its floats
    positions = max(math.prod(problem.x_shape[2:]), math.prod(problem.y_shape[2:]))
    return max(gemm.m, gemm.n, gemm.k, gemm.batch, line, positions, *axes)
