"""`Window`: the window of a pooling, in as many axes as kernels have, and numbers for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from convfind.checking import window
from convfind.errors import ProblemError


class Window(window.Window):
    """Size and steps of a window along each spatial axis."""

    __slots__ = ()

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


def per_axis(field: str, value: int | Sequence[int], rank: int, least: int) -> tuple[int, ...]:
    """Return a number for each axis. Raises `ProblemError`."""
    numbers = (value,) * rank if isinstance(value, int) else tuple(map(int, value))
    if len(numbers) != rank or min(numbers, default=least) < least:
        raise ProblemError(field, value, f"a number, or {rank} of them, from {least} on")
    return numbers
