"""`Window`: how the windows of a pooling step over padded data, and which elements they meet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.errors import ProblemError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """Size and steps of a window along each spatial axis.

    With ``ceil_mode`` a last window may reach beyond the padding, if it begins before it.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    padding_end: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return math.prod(self.size)

    def reach(self, axis: int) -> int:
        """Return the elements from the first tap to the last along an axis."""
        return self.dilation[axis] * (self.size[axis] - 1) + 1

    def result(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each axis. Raises `ProblemError`."""
        return tuple(self._count(axis, size) for axis, size in enumerate(spatial))

    def _count(self, axis: int, size: int) -> int:
        begin, step = self.padding[axis], self.stride[axis]
        span = size + begin + self.padding_end[axis] - self.reach(axis)
        count = (-(-span // step) if self.ceil_mode else span // step) + 1
        if self.ceil_mode and (count - 1) * step >= size + begin:
            count -= 1
        if count < 1:
            raise ProblemError("size", self.size, f"windows that fit {size} elements")
        return count

    def met(self, data: Array, fill: Any, border: Any = None) -> Iterator[Array]:
        """Yield, for each tap, the element that every window meets there.

        Args:
            data: batch, channels, spatial.
            fill: what the padding holds.
            border: what lies beyond it, where ``ceil_mode`` lets windows reach; None: as the
                padding.
        """
        counts = self.result(data.shape[2:])
        around, beyond = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
        for axis, (extent, count) in enumerate(zip(data.shape[2:], counts, strict=True)):
            begin, end = self.padding[axis], self.padding_end[axis]
            needed = (count - 1) * self.stride[axis] + self.reach(axis)
            around.append((begin, end))
            beyond.append((0, max(0, needed - extent - begin - end)))
        grown = np.pad(data, around, constant_values=fill)
        grown = np.pad(grown, beyond, constant_values=fill if border is None else border)
        for tap in np.ndindex(*self.size):
            where: tuple[Any, ...] = tuple(
                slice(at * gap, at * gap + (count - 1) * step + 1, step)
                for at, gap, count, step in zip(
                    tap, self.dilation, counts, self.stride, strict=True
                )
            )
            yield grown[(..., *where)]
