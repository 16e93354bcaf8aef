"""`CpuSolver`: what the family's solvers for CPUs have in common."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import PlainVariant, cpu_index
from convfind.problem import PACKED_TRAITS, ConvProblem
from convfind.solver import CPUS, Domain
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_spec import Program
from convfind.types import Algorithm, DataType
from convfind_solvers_direct.programs import CPU
from convfind_solvers_direct.window import Window

#: Floats of a vector.
VECTOR = 16
#: Work-items a core, so that cores that are slowed down get fewer.
ITEMS_PER_CORE = 4
#: FLOP that a CPU core does while it moves a byte.
BALANCE = 15
#: The cost of floats in first layers beside products, in operations of the peak: source,
#: weights, which are packed or summed, and of results, channels first and channels last.
_SOURCE_COST, _WEIGHT_COST = 20, 150
_FIRST_RESULT_COST, _LAST_RESULT_COST = 75, 10


class CpuSolver(PlainVariant):
    """A float32 convolution in one direction and family of layouts, on CPUs."""

    algorithm = Algorithm.DIRECT
    is_dynamic = True
    backends = ("opencl",)
    domain = Domain(kinds=CPUS, dtypes=(DataType.FLOAT32,), ranks=(1, 2), traits=PACKED_TRAITS)

    def first_layer_index(self, problem: ConvProblem, target: Target, products: float) -> float:
        """Return the index of so many operations for products, beside tensors and weights."""
        first, second = map(problem.elements, problem.direction.reads)
        source = first + second if problem.direction.writes == "w" else first
        result_cost = _LAST_RESULT_COST if self.channels_last else _FIRST_RESULT_COST
        operations = products + _SOURCE_COST * source + _WEIGHT_COST * problem.elements("w")
        operations += result_cost * problem.elements(problem.direction.writes)
        return cpu_index(problem, target, operations, launches=2)


def program_of(name: str, shape: Window, **macros: DefineValue) -> Program:
    """Return a program of a kernel file for CPUs."""
    return CPU.program(name, {**shape.macros, **macros})


def items_wanted(target: Target) -> int:
    """Work-items that keep all cores busy."""
    return 1 if target.compute_units == 1 else ITEMS_PER_CORE * target.compute_units
