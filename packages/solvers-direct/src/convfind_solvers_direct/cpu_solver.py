"""`CpuSolver`: what the family's solvers for CPUs have in common."""

from __future__ import annotations

from abc import abstractmethod

from convfind.device.target import DeviceKind, Target
from convfind.kit.throughput import cpu_index
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import Solver
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.defines import DefineValue, make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_direct.window import Window

PACKAGE = "convfind_solvers_direct"
#: Floats of a vector.
VECTOR = 16
#: Work-items a core, so that cores that are slowed down get fewer.
ITEMS_PER_CORE = 4
#: FLOP that a CPU core does while it moves a byte.
BALANCE = 15
#: What floats cost first layers beside products, in operations of the peak: of the source, of
#: weights, which are packed or summed, and of results, channels first and channels last.
_SOURCE_COST, _WEIGHT_COST = 20, 150
_FIRST_RESULT_COST, _LAST_RESULT_COST = 75, 10


class CpuSolver(Solver):
    """A float32 convolution in one direction and family of layouts, on CPUs."""

    direction: Direction
    algorithm = Algorithm.DIRECT
    is_dynamic = True
    backends = ("opencl",)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take float32 tensors in the solver's direction, on CPUs, if `judge` does."""
        if target.kind is not DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for CPUs")
        if problem.direction is not self.direction:
            return Rejected(Reason.DIRECTION, f"{problem.direction} is not {self.direction}")
        if problem.dtype is not DataType.FLOAT32:
            return Rejected(Reason.DTYPE, "is float32 only")
        return self.judge(problem)

    @abstractmethod
    def judge(self, problem: ConvProblem) -> Applicability:
        """Judge layouts and sizes."""


def program_of(name: str, shape: Window, **macros: DefineValue) -> Program:
    """Return a program of a kernel file for CPUs."""
    return Program(
        KernelSource(PACKAGE, f"kernels/{name}.cl"),
        KernelLanguage.OPENCL_C,
        make_defines({**shape.macros, **macros}),
    )


def items_wanted(target: Target) -> int:
    """Work-items that keep all cores busy."""
    return 1 if target.compute_units == 1 else ITEMS_PER_CORE * target.compute_units


def first_layer_index(
    problem: ConvProblem, target: Target, products: float, *, channels_last: bool
) -> float:
    """Return the index of so many operations for products, beside tensors and weights."""
    first, second = map(problem.elements, problem.direction.reads)
    source = first + second if problem.direction.writes == "w" else first
    result_cost = _LAST_RESULT_COST if channels_last else _FIRST_RESULT_COST
    operations = products + _SOURCE_COST * source + _WEIGHT_COST * problem.elements("w")
    operations += result_cost * problem.elements(problem.direction.writes)
    return cpu_index(problem, target, operations, launches=2)


def has_many_registers(target: Target) -> bool:
    """Whether there are 32 registers of 16 floats, not 16 of fewer."""
    return target.arch == "x86-64-avx512"
