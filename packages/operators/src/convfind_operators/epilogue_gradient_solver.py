"""`EpilogueGradientSolver`: one pass over the gradient, and one over the parts of its sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Argument, BufferArg, Fill, Launch, Memory, Recipe, Step, i32, i64
from convfind_operators.epilogue_gradient import EpilogueGradientProblem
from convfind_operators.launching import VECTOR, has_vectors, kernel, number, spread
from convfind_operators.solver import OperatorSolver

#: Vectors of channels that a work-item on a CPU adds up side by side.
_BLOCK = 16
#: Work-items of a group on GPUs, at most.
_LANES = 256
#: Work-groups for each compute unit: enough to share work evenly and to hide waiting.
_GROUPS, _GROUPS_OF_GPU = 4, 32
#: Rows, or vectors of positions, for which a part of a sum is worth its place.
_LEAST_ROWS = 16
#: The most that launches can count along an axis on every runtime.
_MOST_PARTS = 2**15


class EpilogueGradientSolver(OperatorSolver):
    """Two launches, or one where no sum is wanted."""

    family = EpilogueGradientProblem

    def countable(self, problem: EpilogueGradientProblem, target: Target) -> Applicability:
        """Take tensors without gaps whose images can be counted."""
        if problem.strides:
            return Rejected(Reason.NON_PACKED, "tensors without gaps")
        if not problem.is_along_channels and problem.x[0] > _MOST_PARTS:
            return Rejected(Reason.SIZE_LIMIT, f"at most {_MOST_PARTS} images")
        return APPLICABLE

    def workspace_size(self, problem: Any, target: Target, limit: int | None = None) -> int:
        """Return the bytes of the parts of sums."""
        if not problem.bias or 0 in problem.x:
            return 0
        size: int = problem.dtype.arithmetic.size
        return _Parts.of(problem, target).count * int(problem.x[1]) * size

    def solution(
        self,
        problem: Any,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Describe the pass over everything, and the one over the parts."""
        if not math.prod(problem.x):  # then a sum by channel is 0
            bias = problem.operand("dbias").nbytes if problem.bias else 0
            steps: tuple[Step, ...] = (Fill("dbias", 0, bias),) if bias else ()
            return Recipe(self.solver_id, steps, config=config)
        workspace = self.workspace_size(problem, target)
        steps = self.steps(problem, target)
        return Recipe(self.solver_id, steps, workspace=workspace, config=config)

    def steps(self, problem: EpilogueGradientProblem, target: Target) -> tuple[Step, ...]:
        """Return the launches."""
        parts = _Parts.of(problem, target)
        arithmetic = problem.dtype.arithmetic
        macros: dict[str, int | str] = {
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": arithmetic.upper(),
            "SUMS": problem.bias,
            **parts.macros,
        }
        slopes: tuple[Argument, ...] = ()
        if problem.activation is not None:
            macros["CF_ACTIVATION"] = problem.activation.kind.macro
            macros["CF_SLOPE_OF_RESULT"] = problem.of_result
            numbers = (number(value, arithmetic) for value in problem.activation.numbers)
            slopes = (BufferArg("x"), BufferArg("dx"), *numbers)
        workspace = (BufferArg(Memory.WORKSPACE),) if problem.bias else ()
        file = "epilogue_gradient"
        first = Launch(
            kernel(file, f"operators_{file}_{parts.form}", target, macros),
            (BufferArg("dy"), *slopes, *workspace, *parts.arguments),
            parts.global_size,
            parts.local_size,
        )
        if not problem.bias:
            return (first,)
        channels = problem.x[1]
        last = Launch(
            kernel(file, f"operators_{file}_sum", target, macros),
            (*workspace, BufferArg("dbias"), i64(parts.count), i64(channels)),
            *spread(channels, target),
        )
        return first, last


@dataclass(frozen=True, slots=True)
class _Parts:
    """How sums are divided, and the launch that computes them."""

    form: str  # of the kernel: "first" or "last"
    count: int
    macros: Mapping[str, int]
    arguments: tuple[Argument, ...]
    global_size: tuple[int, int]
    local_size: tuple[int, int]

    @classmethod
    def of(cls, problem: EpilogueGradientProblem, target: Target) -> Self:
        divide = cls._of_rows if problem.is_along_channels else cls._of_planes
        return divide(problem, target)

    @classmethod
    def _of_rows(cls, problem: EpilogueGradientProblem, target: Target) -> Self:
        channels, rows = problem.x[1], math.prod(problem.x) // problem.x[1]
        if has_vectors(target):
            lanes, block = 1, min(_BLOCK, -(-channels // VECTOR))
            across = -(-channels // (block * VECTOR))
        else:
            lanes, block = _lanes(channels, target), 1
            across = -(-channels // lanes)
        parts = min(-(-_wanted(target) // across), -(-rows // _LEAST_ROWS), _MOST_PARTS)
        each = -(-rows // parts)
        return cls(
            *("last", -(-rows // each), {"BLOCK": block}),
            (i64(rows), i64(each), i64(channels)),
            (across * lanes, -(-rows // each)),
            (lanes, 1),
        )

    @classmethod
    def _of_planes(cls, problem: EpilogueGradientProblem, target: Target) -> Self:
        images, channels, inner = *problem.x[:2], math.prod(problem.x[2:])
        width = VECTOR if has_vectors(target) else 1
        lanes = 1 if has_vectors(target) else _lanes(inner, target)
        least = _LEAST_ROWS * width * lanes
        wanted = -(-_wanted(target) // (images * channels))
        pieces = max(1, min(wanted, inner // least, _MOST_PARTS // images))
        each = -(-inner // pieces)
        pieces = -(-inner // each)
        return cls(
            *("first", images * pieces, {"LANES": lanes}),
            (i64(channels), i64(inner), i32(pieces), i64(each)),
            (channels * lanes, images * pieces),
            (lanes, 1),
        )


def _wanted(target: Target) -> int:
    groups = _GROUPS if has_vectors(target) else _GROUPS_OF_GPU
    return groups * target.compute_units


def _lanes(neighbours: int, target: Target) -> int:
    """Return the work-items of a group, a power of two, for so many neighbours."""
    most = 1 << (min(_LANES, max(target.max_work_group, 1)).bit_length() - 1)
    return max(1, min(most, 1 << (neighbours - 1).bit_length()))
