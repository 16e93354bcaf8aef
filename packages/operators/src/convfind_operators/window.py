"""`Window`: how the windows of a pooling step over the padded data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from convfind.checking.borders import window_taps
from convfind.errors import ProblemError
from convfind_operators.operand import Array, Shape


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

    def result(self, spatial: Shape) -> Shape:
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

    def reach(self, axis: int) -> int:
        """Return the elements from the first tap to the last along an axis."""
        return self.dilation[axis] * (self.size[axis] - 1) + 1

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return math.prod(self.size)

    def in_3d(self) -> Self:
        """Return the window of the same pooling in three spatial axes."""
        missing = 3 - len(self.size)
        one, none = (1,) * missing, (0,) * missing
        return type(self)(
            one + self.size,
            one + self.stride,
            none + self.padding,
            none + self.padding_end,
            one + self.dilation,
            self.ceil_mode,
        )

    def met(self, data: Array, fill: Any, border: Any = None) -> Iterator[Array]:
        """Return, for each tap, the element that every window meets there.

        Args:
            data: batch, channels, spatial.
            fill: what the padding holds.
            border: what lies beyond it, where ``ceil_mode`` lets windows reach; None: as the
                padding.
        """
        return window_taps(
            data,
            size=self.size,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            padding_end=self.padding_end,
            counts=self.result(data.shape[2:]),
            fill=fill,
            border=border,
        )


def per_axis(field: str, value: int | Sequence[int], rank: int, least: int) -> tuple[int, ...]:
    """Return a number for each axis. Raises `ProblemError`."""
    numbers = (value,) * rank if isinstance(value, int) else tuple(map(int, value))
    if len(numbers) != rank or min(numbers, default=least) < least:
        raise ProblemError(field, value, f"a number, or {rank} of them, from {least} on")
    return numbers
