"""Macros, arguments and limits that attention's kernels have in common."""

from __future__ import annotations

import math
from typing import Final

from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import Argument, BufferArg, ScalarArg, i32, i64
from convfind_operators.attention import AttentionProblem
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Operand

#: The longest vectors that a kernel takes.
DEEPEST: Final = 256
#: Kernels count work-groups and elements of a line in 32 bits; work-items of a group, at most.
_MOST, _GROUP = 2**31 - 1, 256
_OPERANDS = ("q", "k", "v", "y")


def countable(problem: AttentionProblem, rows: int) -> Applicability:
    """Return whether kernels whose work-groups have so many queries can count a problem."""
    if not problem.keys or not problem.depth:
        return Rejected(Reason.SIZE_LIMIT, "there is nothing to see")
    groups = work_groups(problem, rows)
    if max(groups, problem.queries + rows, problem.keys + DEEPEST) * _GROUP > _MOST:
        return Rejected(Reason.SIZE_LIMIT, f"{groups} work-groups")
    return APPLICABLE


def work_groups(problem: AttentionProblem, rows: int) -> int:
    """Return work-groups that have so many queries of a head each."""
    return math.prod(problem.q[:2]) * -(-problem.queries // rows)


def macros_of(problem: AttentionProblem) -> dict[str, DefineValue]:
    """Return the macros of all kernels."""
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


def arguments_of(
    problem: AttentionProblem, scale: float = 1.0, *, element_steps: bool = False
) -> tuple[Argument, ...]:
    """Return the arguments of ``OPERANDS``, ``ELEMENT_STEPS`` where asked for, and ``SIZES``.

    Scores are multiplied by the problem's factor and by ``scale``.
    """
    operands = tuple(map(problem.operand, _OPERANDS))
    mask: tuple[Argument, ...] = ()
    if problem.mask is not None:
        operand = problem.operand("mask")
        mask = (BufferArg("mask"), *map(i64, repeated(operand)), i32(operand.shape[0]))
    elements = [one.strides[3] for one in operands] if element_steps else []
    sizes = (
        *(problem.heads, problem.sharing, problem.queries, problem.keys),
        *(problem.depth, problem.values),
    )
    return (
        *map(BufferArg, _OPERANDS[:3]),
        *mask,
        BufferArg("y"),
        *(i64(one.start) for one in operands[:3]),
        *(i64(one.strides[axis]) for one in operands for axis in range(3)),
        *map(i64, elements),
        *map(i32, sizes),
        ScalarArg(problem.factor * scale, "float32"),
    )


def repeated(mask: Operand) -> tuple[int, ...]:
    """Return the steps of a mask, which are 0 where it is repeated."""
    ends = zip(mask.shape, mask.strides, strict=True)
    return tuple(0 if size == 1 else step for size, step in ends)
