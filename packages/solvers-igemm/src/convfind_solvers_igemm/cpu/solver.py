"""`CpuSolver`: what the implicit GEMM solvers for CPUs take."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import PlainVariant
from convfind.problem import PACKED_TRAITS, ConvProblem
from convfind.solver import APPLICABLE, CPUS, Applicability, Domain, Reason, Rejected
from convfind.types import Algorithm, DataType
from convfind_solvers_igemm.cpu.geometry import geometry

#: Floats of a vector.
VECTOR = 16
#: Floats of the operand that stays in the level-2 cache beside everything else.
CACHED_FLOATS = 131072
#: The kernels count positions, channels and taps in 32 bits.
_LARGEST = 2**30
_MOST_GROUPS = 2**15


class CpuSolver(PlainVariant):
    """A float32 convolution in one direction and one family of layouts; one program for all."""

    prefix = "igemm-cpu"
    algorithm = Algorithm.IMPLICIT_GEMM
    version = 4
    is_dynamic = True
    backends = ("opencl",)
    domain = Domain(kinds=CPUS, dtypes=(DataType.FLOAT32,), traits=PACKED_TRAITS)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take sizes that the kernels can count."""
        if problem.groups > _MOST_GROUPS:
            return Rejected(Reason.GROUPS, f"at most {_MOST_GROUPS}")
        if _may_be_large(problem) and (largest := geometry(problem).largest) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {largest}")
        return APPLICABLE


def _may_be_large(problem: ConvProblem) -> bool:
    """A bound that is quick to compute, and true of hardly any problem."""
    reach = max(problem.padding) + max(problem.padding_end)
    reach += max(problem.dilation) * max(problem.filter)
    channels = max(problem.x_shape[1], problem.w_shape[0])
    return problem.traffic + 4 * channels * reach > _LARGEST
