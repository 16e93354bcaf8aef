"""`Columns`: how work-groups of GPUs share lines that are neighbours, where lines are few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from convfind.device.target import Target
from convfind_operators.element_type import ElementType
from convfind_operators.launching import GROUP, IN_FOURS, neighbours
from convfind_operators.lines import LineWalk

#: Lines of fewer elements are as quick in one work-item each.
_SHORTEST = 16
#: The bytes of an item's neighbours that memory gives at once, and the most items side by side.
_SECTOR, _MOST_SIDE = 32, 32
#: Work-groups that a unit is to have. Where there are fewer, they are larger for long lines: of so
#: many loads of an item, up to so many items.
_GROUPS_OF_UNIT, _MANY_LOADS, _LARGEST_GROUP = 2, 32, 1024
#: Elements of a line that are worth a second launch, of those of a slab.
_LEAST_SLAB = 2048


@dataclass(frozen=True, slots=True)
class Columns:
    """Work-groups: so many items, some side by side, of which each has a load of neighbours.

    Attributes:
        group: items of a work-group.
        side: of them side by side; the others have shares of the same lines.
        four: neighbouring lines of an item.
        groups: work-groups.
    """

    group: int
    side: int
    four: int
    groups: int

    @classmethod
    def of(cls, walk: LineWalk, arithmetic: ElementType, target: Target) -> Self | None:
        """Return how to share lines, or None where they are short or not neighbours."""
        rows, length = walk.rows.rows, walk.rows.length
        x, y = walk.rows.views
        if walk.more.elements < _SHORTEST or (x.steps[-1], y.steps[-1]) != (1, 1):
            return None
        four = neighbours(walk.rows) if arithmetic is ElementType.FLOAT32 else 1
        steps = walk.more.views[0].steps
        if x.dtype not in IN_FOURS or any(step % four for step in steps):
            four = 1
        pieces = -(-length // four)
        group = min(GROUP, 1 << (target.max_work_group.bit_length() - 1))
        side = min(_MOST_SIDE, group, 1 << (pieces - 1).bit_length())
        least = -(-_SECTOR // (four * x.dtype.size))
        wanted = _GROUPS_OF_UNIT * target.compute_units
        while side > least and rows * -(-pieces // side) < wanted:
            side //= 2
        groups = rows * -(-pieces // side)
        room = target.local_memory // (four * arithmetic.size)  # an item keeps its sums there
        largest = min(_LARGEST_GROUP, target.max_work_group, room)
        while (
            groups < wanted
            and 2 * group <= largest
            and walk.more.elements * side > _MANY_LOADS * group
        ):
            group *= 2
        return cls(group, side, four, groups)

    def slabs(self, walk: LineWalk, target: Target) -> int:
        """Return in how many slabs lines are to be divided so that all units have work."""
        if 4 * self.groups >= target.compute_units:
            return 1
        wanted = -(-_GROUPS_OF_UNIT * target.compute_units // self.groups)
        return max(min(wanted, walk.more.elements // _LEAST_SLAB), 1)
