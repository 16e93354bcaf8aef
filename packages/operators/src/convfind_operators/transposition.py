"""`Transposition`: a copy between tensors whose neighbours lie along different axes, in tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from convfind.device.target import Target
from convfind.solver.recipe import Launch, i32, i64
from convfind_operators.element_type import ElementType
from convfind_operators.launching import (
    GROUP,
    Division,
    arguments_of,
    has_vectors,
    index_type,
    kernel,
    row_sizes,
    streamed,
)
from convfind_operators.walk import Walk

#: Elements of a tile on GPUs, and of one of pairs where so many work-groups are left for a core;
#: loads of a work-item, and work-groups of a launch, at most.
_AREA, _LARGE_AREA, _GROUPS_PER_UNIT, _MOST_LOADS, _MOST_GROUPS = 1024, 4096, 8, 16, 2**20
#: Elements of a side of a tile on CPUs.
_SIDE = 64
#: Fewer neighbours in x are not worth a tile.
_LEAST_NEIGHBOURS = 8


@dataclass(frozen=True, slots=True)
class Transposition:
    """A walk through x and y whose last axis is that of neighbours in y.

    Attributes:
        rows: the axes outside, and that of neighbours in y.
        neighbours: the size of the axis of neighbours in x.
        step: elements of y from one of them to the next.
    """

    rows: Walk
    neighbours: int
    step: int

    @classmethod
    def of(cls, walk: Walk) -> Self | None:
        """Return the transposition that a simplified walk is, or None."""
        x, y = walk.views
        if x.dtype is not y.dtype or y.steps[-1] != 1 or x.steps[-1] in (0, 1):
            return None
        axis = next((axis for axis, step in enumerate(x.steps) if step == 1), None)
        if axis is None or walk.sizes[axis] < _LEAST_NEIGHBOURS:
            return None
        rest = [other for other in range(len(walk.sizes)) if other != axis]
        return cls(walk.along(rest), walk.sizes[axis], y.steps[axis])

    def launch(self, target: Target) -> Launch:
        """Return the launch."""
        x, y = self.rows.views
        vectors = has_vectors(target)
        group, pair = 1, 1
        tile = along = _SIDE
        if not vectors:
            group = 1 << (min(GROUP, target.max_work_group).bit_length() - 1)
            pair = self._pair()
            elements = self.rows.elements * self.neighbours
            is_large = (
                pair > 1 and elements >= _LARGE_AREA * _GROUPS_PER_UNIT * target.compute_units
            )
            area = min(_LARGE_AREA if is_large else _AREA, group * pair * _MOST_LOADS)
            # A tile of a few channels is as much longer along the image; both are powers of two.
            side = 1 << (area.bit_length() - 1) // 2
            tile = min(side, 1 << (self.rows.length - 1).bit_length())
            along = area // tile
        macros: dict[str, int | str] = {
            "BYTES": x.dtype.size,
            "OUTER": len(self.rows.sizes) - 1,
        }
        strips = -(-self.rows.length // tile)
        every = self.rows.rows * strips
        cost = min(tile, self.rows.length)
        division = Division.of(every, self.neighbours, target, cost)
        columns = -(-division.columns // _SIDE) * _SIDE
        tiles = every * -(-self.neighbours // along)
        macros["INDEX"] = index_type(tiles)
        if vectors:
            # Copies of bits: whether they are numbers does not matter.
            elements = self.rows.elements * self.neighbours
            if x.dtype.size == ElementType.FLOAT32.size:
                macros |= streamed(ElementType.FLOAT32, elements, target)
            items = division.global_size[0], -(-self.neighbours // columns)
            sizes: tuple[tuple[int, ...], tuple[int, ...]] = (items, (1, 1))
        else:
            macros |= {"GROUP": group, "TILE_A": along, "TILE_B": tile, "PAIR": pair}
            sizes = (min(tiles, _MOST_GROUPS) * group,), (group,)
        arguments = (
            *arguments_of(x),
            *arguments_of(y)[:-1],
            i64(self.step),
            *row_sizes(self.rows.sizes),
            i32(self.neighbours),
            i32(self.rows.length),
            i32(strips),
            i64(every),
            i64(division.rows),
            i32(columns),
        )
        return Launch(kernel("transpose", "operators_transpose", target, macros), arguments, *sizes)

    def _pair(self) -> int:
        """Return how many neighbours GPUs load and store at a time: two of two bytes, or one."""
        x, y = self.rows.views
        places = (
            *(self.neighbours, self.rows.length, self.step),
            *(x.start, *x.steps),
            *(y.start, *y.steps[:-1]),
        )
        return 2 if x.dtype.size == 2 and not any(place % 2 for place in places) else 1
