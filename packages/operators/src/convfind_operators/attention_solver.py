"""`AttentionSolver` and those for NVIDIA's matrix units: one launch, scores never in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from convfind.device.target import Target
from convfind.kit.register_limit import OPTION, UNIT_REGISTERS
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
#: mma.sync with bfloat16, cp.async; wgmma.
_OLDEST, _HOPPER = 80, 90
#: Bytes that kernels copy at a time; elements that vectors are filled up to a multiple of.
_PIECE_BYTES, _STEP = 16, 16
#: The longest vectors whose sums registers have room for.
_DEEPEST: Final = 128
_LOG2_E = math.log2(math.e)
#: Work-items of four waves; elements of values that wgmma has products of, and too few of them.
_WAVE_GROUP = 128
_WIDTHS, _LEAST_DEPTH = (64, 96, 128), 32
#: From so many queries on, blocks are as for very many.
_LONG = 512
#: Shares of an H200's peaks: 19 of 67 TFLOP/s in float32; 300 and 450 of 989 in types of 16 bits.
_PLAIN_INDEX, _MATRIX_INDEX, _WGMMA_INDEX = 0.28, 0.3, 0.45


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
        return countable(problem, _TILE)

    def wti(self, problem: AttentionProblem, target: Target) -> float | None:
        """The index that was measured, where no library's products are faster, with all around."""
        has_library = has_vectors(target) or any(map(target.has, LIBRARIES))
        return None if has_library else _PLAIN_INDEX

    def steps(self, problem: AttentionProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        macros = {**macros_of(problem), "CF_ARITHMETIC": "FLOAT32"}
        program = Program(
            KernelSource("convfind_operators", "kernels/attention.cl"),
            KernelLanguage.SHARED,
            make_defines({"VALUES": -(-problem.values // _TILE) * _TILE}, macros),
        )
        elements = (i64(problem.operand(name).strides[3]) for name in ("q", "k", "v", "y"))
        groups = _work_groups(problem, _TILE)
        launch = Launch(
            KernelSpec(program, "operators_attention"),
            (
                *arguments_of_memory(problem),
                *steps_of(problem),
                *elements,
                *sizes_of(problem),
                ScalarArg(problem.factor, "float32"),
            ),
            (groups * _GROUP,),
            (_GROUP,),
        )
        return (launch,)


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
        return _in_pieces(problem, Blocks.of(problem, target).rows)

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
        return _in_pieces(problem, WaveGroups.of(problem).rows)

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
        is_deep = max(problem.depth, problem.values) > _DEEPEST // 2
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
    count, items = _work_groups(problem, groups.rows), _WAVE_GROUP * (groups.count + 1)
    factor = ScalarArg(problem.factor * _LOG2_E, "float32")
    arguments = (*arguments_of_memory(problem), *steps_of(problem), *sizes_of(problem), factor)
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
        if depth > _DEEPEST // 2 and is_wide:
            is_large = target.backend == "cuda" and target.compute_capability == _HOPPER
            return cls(8, 1, 32) if is_large else cls(4, 1, 16)  # elsewhere 48 KiB are granted
        if depth > _DEEPEST // 2:
            return cls(4, 1, 32)
        if not is_wide:
            return cls(4, 2 if problem.queries >= _LONG else 1, 64)
        if depth <= _DEEPEST // 4:
            return cls(4, 1, 64)
        blocks = cls(4, 2, 32)
        return (
            blocks if _work_groups(problem, blocks.rows) >= target.compute_units else cls(4, 1, 32)
        )


_DTYPES = (ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16)


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
    groups, items = _work_groups(problem, blocks.rows), 32 * blocks.waves
    factor = ScalarArg(problem.factor * _LOG2_E, "float32")
    arguments = (*arguments_of_memory(problem), *steps_of(problem), *sizes_of(problem), factor)
    kernel = KernelSpec(program, "operators_nvidia_attention")
    return Launch(kernel, arguments, (groups * items,), (items,))


def _in_pieces(problem: AttentionProblem, rows: int) -> Applicability:
    """Take vectors that are copied in whole pieces, and that registers have room for."""
    if max(problem.depth, problem.values) > _DEEPEST:
        return Rejected(Reason.SIZE_LIMIT, f"vectors of over {_DEEPEST} elements")
    piece = _PIECE_BYTES // problem.dtype.size
    for name in ("q", "k", "v", "y"):
        operand = problem.operand(name)
        *outer, element = operand.strides
        if any(one % piece for one in (operand.shape[3], operand.start, *outer)):
            return Rejected(Reason.LAYOUT, f"{name} in pieces of {piece} elements")
        if element != 1:
            return Rejected(Reason.LAYOUT, f"elements of a vector of {name} as neighbours")
    return countable(problem, rows)


def _work_groups(problem: AttentionProblem, rows: int) -> int:
    return math.prod(problem.q[:2]) * -(-problem.queries // rows)


def countable(problem: AttentionProblem, rows: int) -> Applicability:
    """Return whether kernels whose work-groups have so many queries can count a problem."""
    if not problem.keys or not problem.depth:
        return Rejected(Reason.SIZE_LIMIT, "there is nothing to see")
    groups = _work_groups(problem, rows)
    if max(groups, problem.queries + rows, problem.keys + _DEEPEST) * _GROUP > _MOST:
        return Rejected(Reason.SIZE_LIMIT, f"{groups} work-groups")
    return APPLICABLE


def macros_of(problem: AttentionProblem) -> dict[str, DefineValue]:
    """Return the macros of both kernels."""
    macros: dict[str, DefineValue] = {
        "DTYPE": problem.dtype.upper(),
        "CAUSAL": problem.causal,
        "ZEROS": problem.zeros,
    }
    if problem.mask is not None:
        macros["MASK"] = 1 if problem.mask_dtype is ElementType.BOOL else 2
        macros["MASK_DTYPE"] = problem.mask_dtype.upper()
        step = repeated(problem.operand("mask"))[3]
        macros |= {"MASK_KEY": step} if step in (0, 1) else {}
    return macros


def arguments_of_memory(problem: AttentionProblem) -> tuple[Argument, ...]:
    """Return the operands, behind the mask its steps and sequences."""
    mask: tuple[Argument, ...] = ()
    if problem.mask is not None:
        operand = problem.operand("mask")
        mask = (BufferArg("mask"), *map(i64, repeated(operand)), i32(operand.shape[0]))
    return (*map(BufferArg, ("q", "k", "v")), *mask, BufferArg("y"))


def repeated(mask: Operand) -> tuple[int, ...]:
    """Return the steps of a mask, which are 0 where it is repeated."""
    ends = zip(mask.shape, mask.strides, strict=True)
    return tuple(0 if size == 1 else step for size, step in ends)


def steps_of(problem: AttentionProblem) -> tuple[Argument, ...]:
    """Return the first elements, and steps from sequence to sequence, head to head, on in it."""
    operands = tuple(map(problem.operand, ("q", "k", "v", "y")))
    steps = (i64(one.strides[axis]) for one in operands for axis in range(3))
    return (*(i64(one.start) for one in operands[:3]), *steps)


def sizes_of(problem: AttentionProblem) -> tuple[Argument, ...]:
    """Return heads, those that share keys, queries, keys, and elements of a key and a value."""
    return tuple(
        map(
            i32,
            (
                *(problem.heads, problem.sharing, problem.queries, problem.keys),
                *(problem.depth, problem.values),
            ),
        )
    )
