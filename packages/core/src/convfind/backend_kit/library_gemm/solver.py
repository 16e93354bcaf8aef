"""The base of the GEMM solvers: which problems they take, and the sum of the weight gradient."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from convfind.backend_kit.library_gemm.products import summing_gemms
from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.gemm_lowering.product import Gemm, size_refusal
from convfind.kit.recipe_solver import RecipeSolver
from convfind.kit.sizes import round_up
from convfind.kit.throughput import peak_seconds
from convfind.problem import ActivationKind, ConvProblem
from convfind.problem.traits import EPILOGUE_TRAITS, FIRST_TRAITS, Trait
from convfind.reasons import Reason
from convfind.solver import Domain
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, LibraryGemm, Memory, Step, i64
from convfind.types import Algorithm, DataType, Direction

#: Types that libraries multiply; sums are float32, of int8 int32, of float64 float64.
DTYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT8)
#: Parts of an epilogue that libraries may have; adding behind an activation is none of them.
_EPILOGUE = EPILOGUE_TRAITS - {Trait.ADD_LAST}
_NARROW = (DataType.FLOAT16, DataType.BFLOAT16)
_STORE_GROUP = 256
_MOST_STORE_ITEMS = 2**20


@dataclass(frozen=True, slots=True)
class LibraryEpilogue:
    """Epilogues that a library has: work on its products before it stores them.

    That is a tensor in the form of the result, a bias for each column of the row-major result, and
    activations.
    """

    #: Activations without numbers, for each type of element that may have an epilogue.
    activations: Mapping[DataType, tuple[ActivationKind, ...]]
    #: Those of float32 where products may be rounded to TF32.
    of_tf32: tuple[ActivationKind, ...] = ()
    #: Types whose sums are rounded once where a bias and a tensor are added.
    both: frozenset[DataType] = frozenset()

    def obstacle(self, problem: ConvProblem) -> str:
        """Return why a fused problem is more than the library does; empty where it is not."""
        dtype, activation = problem.dtype, problem.activation
        if dtype not in self.activations:
            return f"the library's epilogues are for {', '.join(self.activations)}"
        known = self.of_tf32 if problem.allow_tf32 else self.activations[dtype]
        if activation is not None and activation.kind not in known:
            return f"the library applies {' and '.join(known) or 'no activation'} to such products"
        if problem.bias and problem.beta and dtype not in self.both:
            return "the library rounds such products before it adds both bias and tensor"
        is_last = problem.tensor_layout(problem.direction.writes).channels_last
        if problem.bias and not is_last:
            return "the library adds a bias where the result's channels come last"
        return ""


@dataclass(frozen=True, slots=True)
class Library:
    """A runtime's library of matrix products."""

    backend: str
    features: frozenset[str]  # of targets that have it
    dtypes: tuple[DataType, ...]  # that it multiplies
    int8_multiple: int = 1  # of bytes: rows and beginnings of matrices of int8
    epilogue: LibraryEpilogue | None = None


class GemmSolver(RecipeSolver):
    """A convolution in one direction as matrix products of a library."""

    algorithm = Algorithm.GEMM
    is_dynamic = True
    #: Libraries may round a product to the type of the result before they add what lies there.
    result_roundings = 2
    variant: ClassVar[str]
    #: Directions in which a product is the result, which may have an epilogue.
    fused: ClassVar[tuple[Direction, ...]] = (Direction.FORWARD,)
    traits: ClassVar[frozenset[str]] = FIRST_TRAITS - {
        Trait.GAPS,
        Trait.MIXED_LAYOUTS,
        Trait.RESULT_TYPE,
    }

    def __init__(self, library: Library, direction: Direction) -> None:
        self.solver_id = f"{library.backend}-gemm-{self.variant}-{direction.short}"
        self.backends = (library.backend,)
        self.direction = direction
        self._multiple = library.int8_multiple
        self._epilogue = library.epilogue if direction in self.fused else None
        traits = self.traits if self._epilogue is None else self.traits | _EPILOGUE
        domain = Domain(dtypes=library.dtypes, traits=traits, features=library.features)
        self.domain = domain.oriented(direction)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take matrices that the library can count, and reads where they lie, and its epilogues."""
        if problem.is_fused and self._epilogue is not None:
            obstacle = self._epilogue.obstacle(problem)
            if obstacle:
                return Rejected(Reason.EPILOGUE, obstacle)
        refusal = size_refusal(problem)
        if refusal is None and problem.dtype is DataType.INT8 and self._multiple > 1:
            refusal = self._misplaced(problem, target)
        return APPLICABLE if refusal is None else refusal

    def _misplaced(self, problem: ConvProblem, target: Target) -> Rejected | None:
        """Refuse matrices whose rows do not lie, or begin, where the library wants them."""
        for step in self.solution(problem, target).steps:
            if isinstance(step, LibraryGemm):
                if step.trans_a or not step.trans_b:
                    detail = "products of int8 want both matrices with their sums along rows"
                    return Rejected(Reason.LAYOUT, detail)
                for matrix in (step.a, step.b):
                    if any(n % self._multiple for n in (matrix.row, matrix.offset, matrix.stride)):
                        detail = f"rows of int8 must begin at multiples of {self._multiple} bytes"
                        return Rejected(Reason.CHANNELS, detail)
        return None

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Return the direct formula's time at the device's peak over that of all steps."""
        return peak_seconds(problem.flops, target) / self._seconds(problem, target)

    @abstractmethod
    def _seconds(self, problem: ConvProblem, target: Target) -> float:
        """Return the expected seconds of all steps."""


def sums_apart(problem: ConvProblem) -> bool:
    """True where the weight gradient is summed in single precision and stored afterwards.

    Libraries round every product to the type of its result; of a sum only the last may be.
    """
    return problem.direction is Direction.BACKWARD_WEIGHTS and problem.dtype in _NARROW


def weight_steps(
    problem: ConvProblem, target: Target, products: Iterable[tuple[tuple[Step, ...], Gemm]]
) -> Iterator[Step]:
    """Yield the steps that sum the weight gradient; each product comes with what goes before it."""
    apart = sums_apart(problem)
    beta = 0.0 if apart else problem.beta
    result = DataType.FLOAT32 if apart else problem.dtype
    for before, gemm in products:
        yield from before
        if apart:
            gemm = replace(gemm, c=replace(gemm.c, memory=BufferArg(Memory.WORKSPACE)))
        yield from summing_gemms(gemm, problem, result, beta)
        beta = 1.0
    if not apart:
        return
    elements = math.prod(problem.w_shape)
    source = KernelSource(__package__, "kernels/store_sum.cl")
    program = Program(source, defines=make_defines(DTYPE=problem.dtype.name))
    group = min(_STORE_GROUP, target.max_work_group)
    yield Launch(
        KernelSpec(program, "store_sum"),
        (
            BufferArg(Memory.WORKSPACE),
            BufferArg(Memory.W),
            i64(elements),
            *Epilogue(beta=problem.beta).arguments,
        ),
        (round_up(min(elements, _MOST_STORE_ITEMS), group),),
        (group,),
    )
