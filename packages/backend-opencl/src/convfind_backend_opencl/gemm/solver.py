"""The base of the GEMM solvers: which problems they take, and their tuning."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from convfind.device.target import DeviceKind, Target
from convfind.kit.gemm_lowering.product import size_refusal, whole_gemm
from convfind.kit.recipe_solver import TunableRecipeSolver
from convfind.problem import ConvProblem
from convfind.problem.traits import FIRST_TRAITS, Trait
from convfind.reasons import Reason
from convfind.solver import Domain
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.search_space import SearchSpace
from convfind.types import Algorithm, DataType, Direction
from convfind_backend_opencl.gemm.cpu import CpuGemm
from convfind_backend_opencl.gemm.gpu import GpuGemm, fits, smallest_tile
from convfind_backend_opencl.gemm.kernel import GemmKernel

#: Length of K that is taken for granted in a sum that can be split.
_PIECE = 256
_KERNELS = {DeviceKind.CPU: CpuGemm(), DeviceKind.GPU: GpuGemm(), DeviceKind.ACCELERATOR: GpuGemm()}


class GemmSolver(TunableRecipeSolver):
    """A float32 convolution in one direction as products of matrices."""

    variant: ClassVar[str]
    #: Directions in which a product is the result, so that it can have all of an epilogue.
    completed: ClassVar[tuple[Direction, ...]] = (Direction.FORWARD,)
    algorithm = Algorithm.GEMM
    is_dynamic = True
    backends = ("opencl",)
    domain = Domain(
        dtypes=(DataType.FLOAT32,), traits=FIRST_TRAITS - {Trait.GAPS, Trait.MIXED_LAYOUTS}
    )

    def __init__(self, direction: Direction) -> None:
        self.solver_id = f"opencl-gemm-{self.variant}-{direction.short}"
        self.direction = direction
        domain = self.domain.oriented(direction)
        self.domain = domain.with_epilogue() if direction in self.completed else domain

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take matrices that the kernels can count, on devices that have room for a tile."""
        if (refusal := size_refusal(problem)) is not None:
            return refusal
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
