"""`Lines`: operators on lines of elements; `LineWalk`: how a kernel goes through the lines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from convfind.problem.activation import Activation
from convfind_operators.operator import Operator
from convfind_operators.walk import View, Walk

#: Axes of a line beside that of the lanes that kernels know.
MOST_MORE = 3


@dataclass(frozen=True, slots=True)
class LineWalk:
    """Lines: axes along which they lie next to each other, and those along which each extends.

    Attributes:
        rows: rows of lanes: all that is outside of the lanes, which are the innermost axis.
        more: the axes of a line that are not that of the lanes, innermost first.
        along: whether lanes are elements of one line, or neighbouring lines.
    """

    rows: Walk
    more: Walk
    along: bool

    @classmethod
    def of(cls, walk: Walk, reduced: Sequence[int]) -> Self:
        """Return a walk whose lines extend along some axes of one of x, first, and results."""
        source = walk.views[0]
        kept = [axis for axis in range(len(walk.sizes)) if axis not in reduced]

        def outermost_first(axes: Sequence[int]) -> list[int]:
            present = [axis for axis in axes if walk.sizes[axis] != 1]
            return sorted(present, key=lambda axis: -abs(source.steps[axis]))

        outside = walk.along(outermost_first(kept)).merged()
        inside = walk.along(outermost_first(reduced)).merged()
        steps = (inside.views[0].steps[-1], outside.views[0].steps[-1])
        along = inside.length > 1 and (steps[0] == 1 or outside.length == 1 or steps[1] != 1)
        if not along:
            return cls(outside, _innermost_first(inside, len(inside.sizes)), along=False)
        lanes = inside.along([len(inside.sizes) - 1])
        sizes = (*outside.sizes, *lanes.sizes)
        views = tuple(
            View(view.name, view.dtype, view.start, view.steps + other.steps)
            for view, other in zip(outside.views, lanes.views, strict=True)
        )
        if outside.elements == 1:
            sizes, views = lanes.sizes, lanes.views
        return cls(Walk(sizes, views), _innermost_first(inside, len(inside.sizes) - 1), along=True)

    def more_steps(self, at: int) -> tuple[int, ...]:
        """Return the steps of a view along `more`, filled up to `MOST_MORE`."""
        steps = self.more.views[at].steps
        return (*steps, *(0,) * (MOST_MORE - len(steps)))

    @property
    def more_sizes(self) -> tuple[int, ...]:
        """Return the sizes of `more`, filled up to `MOST_MORE`."""
        return (*self.more.sizes, *(1,) * (MOST_MORE - len(self.more.sizes)))


def _innermost_first(walk: Walk, count: int) -> Walk:
    return walk.along(list(reversed(range(count))))


@dataclass(frozen=True, kw_only=True)
class Lines(Operator):
    """A function of lines of elements: a number each, or another line."""

    @property
    @abstractmethod
    def operation(self) -> str:
        """The word of ``lines.cl``."""

    @property
    @abstractmethod
    def walk(self) -> LineWalk:
        """The lines of x, then of what else is read, then of y."""

    @property
    def gives_lines(self) -> bool:
        """True if lines become lines."""
        return True

    @property
    def elements_of_line(self) -> int:
        """How many elements a line has."""
        walk = self.walk
        return walk.more.elements * (walk.rows.length if walk.along else 1)

    @property
    def activation_of_lines(self) -> Activation | None:
        """The activation that ends results that are lines; None: there is none."""
        return None

    @property
    def epsilon_of_lines(self) -> float:
        """The number that a norm adds to what it divides by."""
        return 0.0
