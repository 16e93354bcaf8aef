"""`CpuSolver`: what the implicit GEMM solvers for CPUs take, and their register tile."""

from __future__ import annotations

from typing import ClassVar

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import Solver
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_igemm.cpu_geometry import geometry

#: Floats of a vector.
VECTOR = 16
#: Floats of the operand that stays in the level-2 cache beside everything else.
CACHED_FLOATS = 131072
#: The kernels count positions, channels and taps in 32 bits.
_LARGEST = 2**30
_MOST_GROUPS = 2**15
#: The register tile that fills the registers: 32 of 16 floats, 16 of 8; else 32 of 4.
_REGISTER_TILES = {"x86-64-avx512": (12, 2), "x86-64-avx2": (6, 1)}
_OTHER_REGISTER_TILE = (5, 1)


class CpuSolver(Solver):
    """A float32 convolution in one direction and one family of layouts; one program for all."""

    direction: ClassVar[Direction]
    channels_last: ClassVar[bool]
    algorithm = Algorithm.IMPLICIT_GEMM
    version = 4
    is_dynamic = True
    backends = ("opencl",)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take packed float32 tensors in the solver's layout, on CPUs."""
        if problem.dtype is not DataType.FLOAT32:
            return Rejected(Reason.DTYPE, "is float32 only")
        return self.shape_applicability(problem, target)

    def shape_applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Judge everything but the types."""
        if target.kind is not DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for CPUs")
        if problem.direction is not self.direction:
            return Rejected(Reason.DIRECTION, f"{problem.direction} is not {self.direction}")
        if not problem.layouts_agree or problem.x_layout.channels_last is not self.channels_last:
            order = "last" if self.channels_last else "first"
            return Rejected(Reason.LAYOUT, f"x, w and y must all be channels {order}")
        if not problem.is_packed:
            return Rejected(Reason.NON_PACKED)
        if problem.groups > _MOST_GROUPS:
            return Rejected(Reason.GROUPS, f"at most {_MOST_GROUPS}")
        if _may_be_large(problem) and (largest := geometry(problem).largest) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {largest}")
        return APPLICABLE


def register_tile(target: Target) -> tuple[int, int]:
    """Rows and vectors of the register tile."""
    return _REGISTER_TILES.get(target.arch, _OTHER_REGISTER_TILE)


def _may_be_large(problem: ConvProblem) -> bool:
    """A bound that is quick to compute, and true of hardly any problem."""
    reach = max(problem.padding) + max(problem.padding_end)
    reach += max(problem.dilation) * max(problem.filter)
    channels = max(problem.x_shape[1], problem.w_shape[0])
    return problem.traffic + 4 * channels * reach > _LARGEST
