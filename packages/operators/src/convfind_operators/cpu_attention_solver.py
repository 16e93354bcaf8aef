"""`CpuAttentionSolver`: attention whose scores stay in the caches of a CPU's core."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from convfind.device.target import Target
from convfind.kit.register_tile import PRODUCT
from convfind.kit.sizes import ceil_div, round_up
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import Launch, Step, i32
from convfind_operators.attention import AttentionProblem
from convfind_operators.attention_launch import arguments_of, countable, macros_of, repeated
from convfind_operators.element_type import ElementType
from convfind_operators.launching import VECTOR, has_vectors, kernel
from convfind_operators.operator import Operator
from convfind_operators.solver import OperatorSolver

#: The longest vectors that a block of keys, and one of values, has room for.
_LONGEST: Final = 256
#: Queries of a work-item and keys of a block of vectors of up to so many elements.
_ROOM: Final = ((64, 192, 128), (128, 96, 64), (_LONGEST, 48, 64))
#: The cost of a work-item's keys in order, in queries.
_KEYS_IN_ORDER = 8
#: Work-items more than the least that cores are to have as much to do with.
_MORE = 8
#: Products and exponentials, as a share of a core's peak.
_INDEX = 0.6


class CpuAttentionSolver(OperatorSolver):
    """A work-item has some queries of a head, and all keys that they see."""

    family = AttentionProblem

    def __init__(self, problem: type[Operator]) -> None:
        super().__init__(problem)
        self.solver_id += "-cpu"

    def countable(self, problem: AttentionProblem, target: Target) -> Applicability:
        """Take vectors that private memory has room for."""
        if not has_vectors(target):
            return Rejected(Reason.DEVICE_KIND, "CPUs only")
        if problem.dtype is ElementType.FLOAT64 or problem.mask_dtype is ElementType.FLOAT64:
            return Rejected(Reason.DTYPE, "computes in float32")
        longest = max(problem.depth, problem.values)
        if longest > _LONGEST:
            return Rejected(Reason.SIZE_LIMIT, f"vectors of {longest} elements")
        return countable(problem, 1)

    def wti(self, problem: AttentionProblem, target: Target) -> float | None:
        """The index that was measured."""
        return _INDEX

    def steps(self, problem: AttentionProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        room = _Room.of(problem, target)
        share = room.share(problem, target.compute_units)
        macros = {
            **macros_of(problem),
            "CF_ARITHMETIC": "FLOAT32",
            **{
                f"{name.upper()}_IS": 1 if problem.operand(name).strides[3] == 1 else 2
                for name in ("q", "k", "v", "y")
            },
            "ROWS": room.rows,
            "QUERIES": room.queries,
            "KEYS": room.keys,
            "DEPTH": round_up(problem.depth, VECTOR),
            "VALUES": round_up(problem.values, VECTOR),
        }
        if problem.mask is not None:
            step = repeated(problem.operand("mask"))[3]
            macros["MASK_IS"] = step if step in (0, 1) else 2
        block = ceil_div(problem.keys, ceil_div(problem.keys, room.keys))
        arguments = (
            *arguments_of(problem, element_steps=True),
            i32(share),
            i32(round_up(block, VECTOR)),
        )
        items = math.prod(problem.q[:2]) * ceil_div(problem.queries, share)
        spec = kernel("cpu_attention", "operators_cpu_attention", target, macros)
        return (Launch(spec, arguments, (items,), (1,)),)


@dataclass(frozen=True, slots=True)
class _Room:
    """The queries of a register tile and of a work-item, and the keys of a block, at most."""

    rows: int
    queries: int
    keys: int

    @classmethod
    def of(cls, problem: AttentionProblem, target: Target) -> _Room:
        rows, _ = PRODUCT.of(target)
        longest = max(problem.depth, problem.values)
        queries, keys = next(room for most, *room in _ROOM if longest <= most)
        return cls(rows, queries // rows * rows, keys)

    def share(self, problem: AttentionProblem, cores: int) -> int:
        """Return the queries of a work-item with which cores have the least to do."""
        sequences, queries = math.prod(problem.q[:2]), problem.queries
        least = ceil_div(queries, self.queries)

        def cost(share: int) -> int:
            items = sequences * ceil_div(queries, share)
            return ceil_div(items, cores) * (min(share, queries) + _KEYS_IN_ORDER)

        shares = (
            round_up(ceil_div(queries, parts), self.rows) for parts in range(least, least + _MORE)
        )
        return min(shares, key=cost)
