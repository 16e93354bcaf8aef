"""A copy of a tensor as a step: from one order of its axes in memory to another, gaps or none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from convfind.device.target import Target
from convfind.kit.launching import Grid, Kernels
from convfind.kit.row_tile import groups_wanted, row_tile
from convfind.solver.recipe import BufferArg, Launch, i64

_KERNELS = Kernels("convfind.kit")
#: Axes beside the two that a work-group walks.
_AXES = 3
#: Elements that a work-item reads side by side: a cache line of most types.
_DEPTH = 16
_MOST_GROUPS = 2**15  # along an axis, as every runtime can launch


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis: its size, and elements from one to the next in the source and in the result."""

    size: int = 1
    source: int = 0
    result: int = 0
    is_channels: bool = False  # a program may know the size

    def joined(self, inner: Self) -> _Axis | None:
        """Return one axis in the place of this and the next faster one, None if none can be."""
        if (self.source, self.result) == (inner.size * inner.source, inner.size * inner.result):
            is_channels = self.is_channels and inner.is_channels
            return _Axis(self.size * inner.size, inner.source, inner.result, is_channels)
        return None


def copy_step(
    *,
    source: BufferArg,
    result: BufferArg,
    shape: tuple[int, ...],
    source_strides: tuple[int, ...],
    result_strides: tuple[int, ...],
    element_size: int,
    images: bool,
    target: Target,
) -> Launch:
    """Return the launch that copies a tensor; what lies in gaps of the result stays.

    Args:
        source: where it lies.
        result: other memory.
        shape: sizes of at most five axes, none of them 0.
        source_strides: elements from one to the next along each axis.
        result_strides: the same of the result.
        element_size: bytes of an element: 1, 2, 4 or 8.
        images: whether all axes but the second are those of images: one program serves all sizes.
        target: the device.
    """
    *outer, column = _axes(shape, source_strides, result_strides, images=images)
    depth = min(outer, key=lambda axis: axis.source, default=_Axis())
    outer = [axis for axis in outer if axis is not depth]
    rows = [_Axis()] * (_AXES - len(outer)) + outer
    lanes, columns = row_tile(column.size, target, is_known=column.is_channels)
    across = -(-column.size // (lanes * columns))
    deep = max(_DEPTH, -(-depth.size // _MOST_GROUPS))
    layers = -(-depth.size // deep)
    count = math.prod(axis.size for axis in rows)
    wanted = groups_wanted(target) // (across * layers)
    each = -(-count // min(max(1, wanted), count, _MOST_GROUPS))
    program = _KERNELS.program("copy_step", SIZE=element_size, LANES=lanes)
    return Grid(program, "copy_step", (across, layers, -(-count // each)), lanes)(
        *(source, result, i64(count), i64(each)),
        *(i64(column.size), columns, i64(column.source), i64(column.result)),
        *(i64(depth.size), i64(deep), i64(depth.source), i64(depth.result)),
        *(i64(axis.size) for axis in rows[1:]),
        *(i64(axis.source) for axis in rows),
        *(i64(axis.result) for axis in rows),
    )


def _axes(
    shape: tuple[int, ...], source: tuple[int, ...], result: tuple[int, ...], *, images: bool
) -> list[_Axis]:
    """Return the axes in the result's order in memory, slowest first; those that can be are one."""
    found: list[_Axis] = []
    known = (not images or place == 1 for place in range(len(shape)))
    given = (_Axis(*axis) for axis in zip(shape, source, result, known, strict=True))
    for axis in sorted((one for one in given if one.size > 1), key=lambda one: -one.result):
        joined = found[-1].joined(axis) if found else None
        if joined is None:
            found.append(axis)
        else:
            found[-1] = joined
    return found or [_Axis()]
