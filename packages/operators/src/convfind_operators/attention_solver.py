"""`AttentionSolver`, `NvidiaAttentionSolver`: attention in one launch, scores never in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver import ProblemDomain
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.defines import DefineValue, make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import Argument, BufferArg, Launch, ScalarArg, Step, i32, i64
from convfind_operators.attention import AttentionProblem
from convfind_operators.element_type import ElementType
from convfind_operators.launching import has_vectors
from convfind_operators.library_matmul_solver import LIBRARIES
from convfind_operators.operand import Operand
from convfind_operators.operator import Operator
from convfind_operators.solver import OperatorSolver

#: Queries and work-items of a work-group, and the longest results, of the kernel for any device.
_TILE, _GROUP, _LONGEST = 64, 256, 256
#: Kernels count work-groups and elements of a line in 32 bits.
_MOST = 2**31 - 1
#: mma.sync with bfloat16, cp.async.
_OLDEST = 80
#: Elements of a piece of 16 bytes, and of the products of matrix units along their sum.
_PIECE, _STEP = 8, 16
#: The longest vectors whose sums registers have room for.
_DEEPEST: Final = 128
_LOG2_E = math.log2(math.e)
#: From so many queries on, blocks are as for very many.
_LONG = 512
#: Shares of an H200's peaks: 19 of 67 TFLOP/s in float32, 300 of 989 in types of 16 bits.
_PLAIN_INDEX, _MATRIX_INDEX = 0.28, 0.3


class AttentionSolver(OperatorSolver):
    """Plain multiply-adds, on any device."""

    family = AttentionProblem

    def countable(self, problem: AttentionProblem, target: Target) -> Applicability:
        """Take what a work-group has room for."""
        if problem.dtype is ElementType.FLOAT64 or problem.mask_dtype is ElementType.FLOAT64:
            return Rejected(Reason.DTYPE, "computes in float32")
        if target.max_work_group < _GROUP:
            return Rejected(Reason.WORK_GROUP, f"needs {_GROUP} work-items")
        if problem.values > _LONGEST:
            return Rejected(Reason.SIZE_LIMIT, f"values of {problem.values} elements")
        return _countable(problem, _TILE)

    def wti(self, problem: AttentionProblem, target: Target) -> float | None:
        """The index that was measured, where no library's products are faster, with all around."""
        has_library = has_vectors(target) or any(map(target.has, LIBRARIES))
        return None if has_library else _PLAIN_INDEX

    def steps(self, problem: AttentionProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        macros = {**_macros(problem), "CF_ARITHMETIC": "FLOAT32"}
        program = Program(
            KernelSource("convfind_operators", "kernels/attention.cl"),
            KernelLanguage.SHARED,
            make_defines({"VALUES": -(-problem.values // _TILE) * _TILE}, macros),
        )
        elements = (i64(problem.operand(name).strides[3]) for name in ("q", "k", "v", "y"))
        groups = math.prod(problem.q[:2]) * -(-problem.queries // _TILE)
        launch = Launch(
            KernelSpec(program, "operators_attention"),
            (
                *_memory(problem),
                *_steps(problem),
                *elements,
                *_sizes(problem),
                ScalarArg(problem.factor, "float32"),
            ),
            (groups * _GROUP,),
            (_GROUP,),
        )
        return (launch,)


class NvidiaAttentionSolver(OperatorSolver):
    """NVIDIA's matrix units (``mma.sync``), for elements of 16 bits."""

    family = AttentionProblem
    backends = ("opencl", "cuda")

    def __init__(self, problem: type[Operator]) -> None:
        super().__init__(problem)
        self.solver_id += "-nvidia"
        self.domain = ProblemDomain(problem=problem.kind, dtypes=_NARROW, traits=self.domain.traits)

    def countable(self, problem: AttentionProblem, target: Target) -> Applicability:
        """Take vectors of whole pieces of 16 bytes."""
        if target.compute_capability < _OLDEST:
            return Rejected(Reason.ARCHITECTURE, f"is for sm_{_OLDEST} on, not {target.arch}")
        if problem.mask_dtype is ElementType.FLOAT64:
            return Rejected(Reason.DTYPE, "computes in float32")
        if max(problem.depth, problem.values) > _DEEPEST:
            return Rejected(Reason.SIZE_LIMIT, f"vectors of over {_DEEPEST} elements")
        for name in ("q", "k", "v", "y"):
            operand = problem.operand(name)
            *outer, element = operand.strides
            if any(one % _PIECE for one in (operand.shape[3], operand.start, *outer)):
                return Rejected(Reason.LAYOUT, f"{name} in pieces of {_PIECE} elements")
            if element != 1:
                return Rejected(Reason.LAYOUT, f"elements of a vector of {name} as neighbours")
        return _countable(problem, Blocks.of(problem).rows)

    def wti(self, problem: AttentionProblem, target: Target) -> float | None:
        """The index that was measured."""
        return _MATRIX_INDEX

    def steps(self, problem: AttentionProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        return (launched(problem, target, Blocks.of(problem)),)


@dataclass(frozen=True, slots=True)
class Blocks:
    """How the kernel for NVIDIA's matrix units is cut.

    Attributes:
        waves: waves of a work-group.
        fragments: 16 queries each, of a wave.
        keys: keys of a tile.
    """

    waves: int
    fragments: int
    keys: int

    @property
    def rows(self) -> int:
        """Queries of a work-group."""
        return 16 * self.waves * self.fragments

    @classmethod
    def of(cls, problem: AttentionProblem) -> Blocks:
        """Return the blocks that were fastest, of those for few queries and for many."""
        if max(problem.depth, problem.values) > _DEEPEST // 2:
            return cls(4, 1, 32)
        return cls(4, 2 if problem.queries >= _LONG else 1, 64)


_NARROW = (ElementType.FLOAT16, ElementType.BFLOAT16)


def launched(problem: AttentionProblem, target: Target, blocks: Blocks) -> Launch:
    """Return the launch of the kernel for NVIDIA's matrix units."""
    # Scores are scaled before a mask is added, and where the factor does not keep their order.
    is_scaled = problem.mask is not None or problem.factor <= 0
    macros = {
        **_macros(problem),
        "DEPTH": -(-problem.depth // _STEP) * _STEP,
        "VALUES": -(-problem.values // _STEP) * _STEP,
        "WAVES": blocks.waves,
        "FRAGMENTS": blocks.fragments,
        "KEYS": blocks.keys,
        "SCALED": is_scaled,
    }
    program = Program(
        KernelSource("convfind_operators", "kernels/nvidia_attention.cl"),
        KernelLanguage.SHARED,
        make_defines(macros, {}),
    )
    groups, items = math.prod(problem.q[:2]) * -(-problem.queries // blocks.rows), 32 * blocks.waves
    factor = ScalarArg(problem.factor * _LOG2_E, "float32")
    arguments = (*_memory(problem), *_steps(problem), *_sizes(problem), factor)
    kernel = KernelSpec(program, "operators_nvidia_attention")
    return Launch(kernel, arguments, (groups * items,), (items,))


def _countable(problem: AttentionProblem, rows: int) -> Applicability:
    if not problem.keys or not problem.depth:
        return Rejected(Reason.SIZE_LIMIT, "there is nothing to see")
    groups = math.prod(problem.q[:2]) * -(-problem.queries // rows)
    if max(groups, problem.queries + rows, problem.keys + _DEEPEST) * _GROUP > _MOST:
        return Rejected(Reason.SIZE_LIMIT, f"{groups} work-groups")
    return APPLICABLE


def _macros(problem: AttentionProblem) -> dict[str, DefineValue]:
    """Return the macros of both kernels."""
    macros: dict[str, DefineValue] = {
        "DTYPE": problem.dtype.upper(),
        "CAUSAL": problem.causal,
        "ZEROS": problem.zeros,
    }
    if problem.mask is not None:
        macros["MASK"] = 1 if problem.mask_dtype is ElementType.BOOL else 2
        macros["MASK_DTYPE"] = problem.mask_dtype.upper()
        step = _repeated(problem.operand("mask"))[3]
        macros |= {"MASK_KEY": step} if step in (0, 1) else {}
    return macros


def _memory(problem: AttentionProblem) -> tuple[Argument, ...]:
    """Return the operands, behind the mask its steps."""
    mask: tuple[Argument, ...] = ()
    if problem.mask is not None:
        mask = (BufferArg("mask"), *map(i64, _repeated(problem.operand("mask"))))
    return (*map(BufferArg, ("q", "k", "v")), *mask, BufferArg("y"))


def _repeated(mask: Operand) -> tuple[int, ...]:
    ends = zip(mask.shape, mask.strides, strict=True)
    return tuple(0 if size == 1 else step for size, step in ends)


def _steps(problem: AttentionProblem) -> tuple[Argument, ...]:
    """Return the first elements, and steps from sequence to sequence, head to head, on in it."""
    operands = tuple(map(problem.operand, ("q", "k", "v", "y")))
    steps = (i64(one.strides[axis]) for one in operands for axis in range(3))
    return (*(i64(one.start) for one in operands[:3]), *steps)


def _sizes(problem: AttentionProblem) -> tuple[Argument, ...]:
    return tuple(
        map(
            i32,
            (
                *(problem.heads, problem.sharing, problem.queries, problem.keys),
                *(problem.depth, problem.values),
            ),
        )
    )
