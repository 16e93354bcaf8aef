"""`Slabs`: lines that are few and long, reduced in slabs, whose results are then reduced."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Self

from convfind.solver.recipe import Memory
from convfind_operators.element_type import ElementType
from convfind_operators.lines import LineWalk
from convfind_operators.operand import Shape, packed_strides
from convfind_operators.walk import MOST_AXES, View, Walk

#: The reduction of each slab, and that of the results of slabs.
STAGES: Final = {
    "SUM": ("SUM", "SUM"),
    "MEAN": ("SUM", "MEAN"),
    "MAX": ("MAX", "MAX"),
    "MIN": ("MIN", "MIN"),
    "PROD": ("PROD", "PROD"),
    "L1": ("L1", "SUM"),
    "L2": ("SUM_SQUARE", "ROOT_SUM"),
    "LOG_SUM": ("SUM", "LOG_SUM"),
    "LOG_SUM_EXP": ("LOG_SUM_EXP", "LOG_SUM_EXP"),
    "SUM_SQUARE": ("SUM_SQUARE", "SUM"),
}
#: Sizes of slabs along the axis that is divided are multiples of this, so that rows stay aligned.
_MULTIPLE = 64


@dataclass(frozen=True, slots=True)
class Slabs:
    """The lines of a reduction in two stages.

    Attributes:
        parts: the lines of all slabs, to the workspace; a shorter last slab is a part of its own.
        last: the lines of the slabs' results.
        nbytes: of the workspace.
    """

    parts: tuple[LineWalk, ...]
    last: LineWalk
    nbytes: int

    @classmethod
    def of(cls, walk: LineWalk, count: int, dtype: ElementType) -> Self | None:
        """Return about so many slabs of lines, or None where they are too short for two.

        Args:
            walk: the lines of x and y.
            count: slabs of each line.
            dtype: the type in which their results are kept.
        """
        _, y = walk.rows.views
        kept = walk.rows.sizes[:-1] if walk.along else walk.rows.sizes
        sizes = (*walk.more.sizes, *walk.rows.sizes[-1:]) if walk.along else walk.more.sizes
        if not sizes or len(walk.rows.sizes) == MOST_AXES:
            return None
        axis = max(range(len(sizes)), key=sizes.__getitem__)
        chunk = -(-sizes[axis] // count // _MULTIPLE) * _MULTIPLE
        if sizes[axis] < 2 * chunk:
            return None
        whole, rest = divmod(sizes[axis], chunk)
        parts = [_part(walk, axis, chunk, range(whole), dtype)]
        if rest:
            parts.append(_part(walk, axis, rest, range(whole, whole + 1), dtype, whole * chunk))
        slabs = whole + bool(rest)
        steps, between = packed_strides(kept), math.prod(kept)
        view = View(Memory.WORKSPACE, dtype, 0, steps)
        if kept:
            result = replace(y, steps=y.steps[: len(kept)])
            more = Walk((slabs,), (replace(view, steps=(between,)), replace(y, steps=(0,))))
            last = LineWalk(Walk(kept, (view, result)), more, along=False)
        else:
            lane = Walk((slabs,), (replace(view, steps=(1,)), replace(y, steps=(0,))))
            last = LineWalk(lane, walk.more.along(()), along=True)
        return cls(tuple(parts), last, slabs * between * dtype.size)


def _part(
    walk: LineWalk, axis: int, size: int, slabs: range, dtype: ElementType, begin: int = 0
) -> LineWalk:
    """Return the lines of some slabs, outermost, each of a size along an axis."""
    x, _ = walk.rows.views
    more_x, _ = walk.more.views
    is_lanes = axis == len(walk.more.sizes)
    step = x.steps[-1] if is_lanes else more_x.steps[axis]
    outer = len(walk.rows.sizes) - walk.along
    kept = walk.rows.sizes[:outer]
    lanes: Shape = ((size,) if is_lanes else walk.rows.sizes[-1:]) if walk.along else ()
    between = math.prod(kept)
    to = View(
        *(Memory.WORKSPACE, dtype, slabs.start * between),
        (between, *packed_strides(kept), *(0,) * walk.along),
    )
    source = replace(x, start=x.start + begin * step, steps=(size * step, *x.steps))
    more = tuple(
        size if at == axis and not is_lanes else other for at, other in enumerate(walk.more.sizes)
    )
    nowhere = replace(to, start=0, steps=(0,) * len(more))
    return LineWalk(
        Walk((len(slabs), *kept, *lanes), (source, to)),
        Walk(more, (more_x, nowhere)),
        along=walk.along,
    )
