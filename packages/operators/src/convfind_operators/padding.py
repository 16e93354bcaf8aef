"""`Padding`: x with a number around it, in one pass over y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from convfind.checking.borders import PadMode
from convfind.device.target import Target
from convfind.solver.recipe import Launch, i32, i64
from convfind_operators.launching import (
    GROUP,
    Division,
    arguments_of,
    grid,
    has_vectors,
    index_type,
    kernel,
    neighbours,
    number,
    row_sizes,
    streamed,
)
from convfind_operators.pad import PadProblem
from convfind_operators.walk import MOST_AXES, View, Walk

#: Loads of a work-item on GPUs before its first store.
_PARTS = 4


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of y: where x begins, what x has of it, and the steps of both."""

    size: int
    begin: int
    count: int
    step_x: int
    step_y: int

    def merged(self, inner: _Axis) -> _Axis | None:
        """Return one axis for this and the next inner one, which x fills; or None."""
        size = inner.size
        beyond = (inner.step_x * size, inner.step_y * size)
        if (inner.begin, inner.count) != (0, size) or self.steps != beyond:
            return None
        return _Axis(self.size * size, self.begin * size, self.count * size, *inner.steps)

    @property
    def steps(self) -> tuple[int, int]:
        """The steps of x and y."""
        return self.step_x, self.step_y


@dataclass(frozen=True, slots=True)
class Padding:
    """A walk through y, with x as it would lie there.

    Attributes:
        walk: x, which begins before its memory where y begins before x, and y.
        begins, ends: along each axis, of x.
    """

    walk: Walk
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    value: float

    @classmethod
    def of(cls, problem: PadProblem) -> Self | None:
        """Return the padding by a number along few axes, with rows that are neighbours, or None."""
        if problem.mode is not PadMode.CONSTANT or 0 in problem.x:
            return None
        x, y = problem.operands
        axes: list[_Axis] = []
        given = zip(y.shape, problem.begin, x.shape, x.strides, y.strides, strict=True)
        for axis in sorted((_Axis(*one) for one in given), key=lambda one: -one.step_y):
            if (axis.size, axis.begin, axis.count) == (1, 0, 1):
                continue
            merged = axes[-1].merged(axis) if axes else None
            axes[-1:] = [merged] if merged else [*axes[-1:], axis]
        if not axes or len(axes) > MOST_AXES or axes[-1].steps != (1, 1):
            return None
        start = -sum(axis.begin * axis.step_x for axis in axes)
        views = (
            View("x", x.dtype, start, tuple(axis.step_x for axis in axes)),
            View("y", y.dtype, 0, tuple(axis.step_y for axis in axes)),
        )
        begins = tuple(axis.begin for axis in axes)
        ends = tuple(axis.begin + axis.count for axis in axes)
        walk = Walk(tuple(axis.size for axis in axes), views)
        return cls(walk, begins, ends, problem.value)

    def launch(self, target: Target) -> Launch:
        """Return the launch."""
        walk, vectors = self.walk, has_vectors(target)
        x, y = walk.views
        arithmetic = x.dtype.arithmetic
        macros: dict[str, int | str] = {
            "DTYPE": x.dtype.upper(),
            "CF_ARITHMETIC": arithmetic.upper(),
            "OUTER": len(walk.sizes) - 1,
        }
        division, items = Division.of(walk.rows, 1, target, walk.length), walk.rows
        if vectors:
            macros |= streamed(y.dtype, walk.elements, target)
            sizes: tuple[tuple[int, ...], tuple[int, ...]] = (division.global_size, (1, 1))
        else:
            four = self._neighbours()
            fours = walk.length // four
            is_worth = walk.rows * fours >= _PARTS * GROUP * target.compute_units
            parts = min(_PARTS, walk.rows) if is_worth else 1
            items = -(-walk.rows // parts) * fours
            macros |= {"PER_ITEM": parts, "INDEX": index_type(items), "FOUR": four}
            sizes = grid(items, target)
        missing = (0,) * (MOST_AXES - len(walk.sizes))
        arguments = (
            *arguments_of(x),
            *arguments_of(y),
            *row_sizes(walk.sizes),
            i32(walk.length),
            *map(i32, (*self.begins[:-1], *missing)),
            *map(i32, (*self.ends[:-1], *missing)),
            *(i32(self.begins[-1]), i32(self.ends[-1])),
            i32(walk.rows),
            i64(items),
            i64(division.rows),
            number(self.value, arithmetic),
        )
        return Launch(kernel("pad", "operators_pad", target, macros), arguments, *sizes)

    def _neighbours(self) -> int:
        """Return how many elements GPUs move at a time: they lie in x together, or beside it."""
        places = (self.walk.length, self.begins[-1], self.ends[-1])
        four = neighbours(self.walk)
        return next(one for one in (four, 4, 1) if one <= four and not any(p % one for p in places))
