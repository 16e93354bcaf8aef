"""Attention on NVIDIA's matrix units: in one launch, its scores never in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convfind.device.target import Target
from convfind.kit.register_limit import OPTION, UNIT_REGISTERS
from convfind.reasons import Reason
from convfind.solver import ProblemDomain
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import Launch, Step
from convfind_operators.attention import AttentionProblem
from convfind_operators.attention_launch import (
    DEEPEST,
    arguments_of,
    countable,
    macros_of,
    work_groups,
)
from convfind_operators.element_type import ElementType
from convfind_operators.operator import Operator
from convfind_operators.solver import OperatorSolver

_DTYPES = (ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16)
#: mma.sync with bfloat16, cp.async; wgmma.
_OLDEST, _HOPPER = 80, 90
#: Bytes that kernels copy at a time; elements that vectors are filled up to a multiple of.
_PIECE_BYTES, _STEP = 16, 16
#: The longest vectors whose sums registers have room for where a wave has 32 queries, or elements
#: are floats; and where it has 16, up to where they leave room for more than 16 keys at a time.
_LONGEST, _ROOMY = 128, 192
_LOG2_E = math.log2(math.e)
#: Work-items of four waves; elements of values that wgmma has products of, and too few of them.
_WAVE_GROUP = 128
_WIDTHS, _LEAST_DEPTH = (64, 96, 128), 32
#: From so many queries on, blocks are as for very many.
_LONG = 512
#: Shares of an H200's peak in types of 16 bits: 300 and 450 of 989 TFLOP/s.
_MATRIX_INDEX, _WGMMA_INDEX = 0.3, 0.45


class NvidiaAttentionSolver(OperatorSolver):
    """NVIDIA's matrix units (``mma.sync``), floats as TF32 or in two parts each."""

    family = AttentionProblem
    backends = ("opencl", "cuda")

    def __init__(self, problem: type[Operator]) -> None:
        super().__init__(problem)
        self.solver_id += "-nvidia"
        self.domain = ProblemDomain(problem=problem.kind, dtypes=_DTYPES, traits=self.domain.traits)

    def countable(self, problem: AttentionProblem, target: Target) -> Applicability:
        """Take vectors of whole pieces of 16 bytes."""
        if target.compute_capability < _OLDEST:
            return Rejected(Reason.ARCHITECTURE, f"is for sm_{_OLDEST} on, not {target.arch}")
        if problem.mask_dtype is ElementType.FLOAT64:
            return Rejected(Reason.DTYPE, "computes in float32")
        longest = _LONGEST if problem.dtype is ElementType.FLOAT32 else DEEPEST
        return _in_pieces(problem, Blocks.of(problem, target).rows, longest)

    def wti(self, problem: AttentionProblem, target: Target) -> float | None:
        """The index that was measured."""
        return _MATRIX_INDEX

    def steps(self, problem: AttentionProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        return (launched(problem, target, Blocks.of(problem, target)),)


class WgmmaAttentionSolver(OperatorSolver):
    """Hopper's matrix units (``wgmma``), for long sequences of elements of 16 bits."""

    family = AttentionProblem
    backends = ("cuda",)

    def __init__(self, problem: type[Operator]) -> None:
        super().__init__(problem)
        self.solver_id += "-wgmma"
        dtypes = (ElementType.FLOAT16, ElementType.BFLOAT16)
        self.domain = ProblemDomain(problem=problem.kind, dtypes=dtypes, traits=self.domain.traits)

    def countable(self, problem: AttentionProblem, target: Target) -> Applicability:
        """Take many queries and keys without a mask."""
        if target.compute_capability != _HOPPER:
            return Rejected(Reason.ARCHITECTURE, f"is for sm_{_HOPPER}, not {target.arch}")
        if problem.mask is not None:
            return Rejected(Reason.TRAIT, "has no masks")
        if problem.factor <= 0:
            return Rejected(Reason.TRAIT, "scales scores that it has compared")
        if min(problem.queries, problem.keys) < _LONG or problem.values <= _LEAST_DEPTH:
            return Rejected(Reason.SIZE_LIMIT, f"{problem.queries} queries of {problem.depth}")
        return _in_pieces(problem, WaveGroups.of(problem).rows, _LONGEST)

    def wti(self, problem: AttentionProblem, target: Target) -> float | None:
        """The index that was measured."""
        return _WGMMA_INDEX

    def steps(self, problem: AttentionProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        return (launched_by_groups(problem, WaveGroups.of(problem)),)


@dataclass(frozen=True, slots=True)
class WaveGroups:
    """How the kernel for Hopper's matrix units is cut.

    Attributes:
        count: groups of four waves that multiply, with 64 queries each.
        keys: keys of a tile.
    """

    count: int
    keys: int

    @property
    def rows(self) -> int:
        """Queries of a work-group."""
        return 64 * self.count

    @property
    def registers(self) -> int:
        """Registers of an item where a work-group has all of a unit, on average."""
        return UNIT_REGISTERS // (_WAVE_GROUP * (self.count + 1)) // 8 * 8

    @classmethod
    def of(cls, problem: AttentionProblem) -> WaveGroups:
        """Return the groups that were fastest: of long vectors, registers hold two groups' sums."""
        is_deep = max(problem.depth, problem.values) > _LONGEST // 2
        return cls(2 if is_deep or problem.queries < 2 * _LONG else 3, 128)


def launched_by_groups(problem: AttentionProblem, groups: WaveGroups) -> Launch:
    """Return the launch of the kernel for Hopper's matrix units."""
    macros = {
        **macros_of(problem),
        "DEPTH": -(-problem.depth // _STEP) * _STEP,
        "VALUES": next(width for width in _WIDTHS if width >= problem.values),
        "CONSUMERS": groups.count,
        "KEYS": groups.keys,
    }
    program = Program(
        KernelSource("convfind_operators", "kernels/nvidia_attention_wgmma.cl"),
        KernelLanguage.SHARED,
        make_defines(macros, {}),
        (f"{OPTION}{groups.registers}",),
    )
    count, items = work_groups(problem, groups.rows), _WAVE_GROUP * (groups.count + 1)
    arguments = arguments_of(problem, _LOG2_E)
    kernel = KernelSpec(program, "operators_nvidia_attention_wgmma")
    return Launch(kernel, arguments, (count * items,), (items,))


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
    def of(cls, problem: AttentionProblem, target: Target) -> Blocks:
        """Return the blocks that were fastest, of those for few queries and for many."""
        depth, is_wide = max(problem.depth, problem.values), problem.dtype is ElementType.FLOAT32
        if depth > (_LONGEST // 2 if is_wide else _ROOMY):
            is_large = target.backend == "cuda" and target.compute_capability == _HOPPER
            return cls(8, 1, 32) if is_large else cls(4, 1, 16)  # elsewhere 48 KiB are granted
        if depth > _LONGEST // 2:
            return cls(4, 1, 32)
        if not is_wide:
            return cls(4, 2 if problem.queries >= _LONG else 1, 64)
        if depth <= _LONGEST // 4:
            return cls(4, 1, 64)
        blocks = cls(4, 2, 32)
        return (
            blocks if work_groups(problem, blocks.rows) >= target.compute_units else cls(4, 1, 32)
        )


def launched(problem: AttentionProblem, target: Target, blocks: Blocks) -> Launch:
    """Return the launch of the kernel for NVIDIA's matrix units."""
    # Scores are scaled before a mask is added, and where the factor does not keep their order.
    is_scaled = problem.mask is not None or problem.factor <= 0
    macros = {
        **macros_of(problem),
        "DEPTH": -(-problem.depth // _STEP) * _STEP,
        "VALUES": -(-problem.values // _STEP) * _STEP,
        "WAVES": blocks.waves,
        "FRAGMENTS": blocks.fragments,
        "KEYS": blocks.keys,
        "SCALED": is_scaled,
    }
    if problem.dtype is ElementType.FLOAT32:
        macros["TF32"] = problem.allow_tf32
    program = Program(
        KernelSource("convfind_operators", "kernels/nvidia_attention.cl"),
        KernelLanguage.SHARED,
        make_defines(macros, {}),
    )
    groups, items = work_groups(problem, blocks.rows), 32 * blocks.waves
    arguments = arguments_of(problem, _LOG2_E)
    kernel = KernelSpec(program, "operators_nvidia_attention")
    return Launch(kernel, arguments, (groups * items,), (items,))


def _in_pieces(problem: AttentionProblem, rows: int, longest: int) -> Applicability:
    """Take vectors that are copied in whole pieces, up to the longest."""
    if max(problem.depth, problem.values) > longest:
        return Rejected(Reason.SIZE_LIMIT, f"vectors of over {longest} elements")
    piece = _PIECE_BYTES // problem.dtype.size
    for name in ("q", "k", "v", "y"):
        operand = problem.operand(name)
        *outer, element = operand.strides
        if any(one % piece for one in (operand.shape[3], operand.start, *outer)):
            return Rejected(Reason.LAYOUT, f"{name} in pieces of {piece} elements")
        if element != 1:
            return Rejected(Reason.LAYOUT, f"elements of a vector of {name} as neighbours")
    return countable(problem, rows)
