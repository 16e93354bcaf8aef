"""`StridedView`: elements of a packed tensor in another order, or some of them, without a copy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convfind_networks.tensor_type import Array


@dataclass(frozen=True, slots=True)
class StridedView:
    """A tensor in the memory of another one: its shape, its strides, and its first element."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int = 0

    def of(self, memory: Array) -> Array:
        """Return the elements of a packed array, which are written where they lie."""
        flat = memory.reshape(-1)[self.start :]
        steps = [step * memory.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps)

    def turned(self, is_turned: bool = True) -> StridedView:
        """Return the view with the last two axes swapped, if so it is."""
        (*sizes, row, column), (*steps, down, across) = self.shape, self.strides
        if not is_turned:
            return self
        return StridedView((*sizes, column, row), (*steps, across, down), self.start)

    def in_rows(self, row: int, wide: int, begin: int) -> StridedView | None:
        """Return the view of the same elements where the memory's rows are parts of longer ones.

        Args:
            row: elements of a row.
            wide: those of a longer row.
            begin: where in such a one a row begins.

        Returns:
            None where elements along an axis go on from one row to the next.
        """
        first, within = divmod(self.start, row)
        strides = list[int]()
        last = within  # of what is in a row
        for size, step in zip(self.shape, self.strides, strict=True):
            rows, rest = divmod(step, row)
            strides.append(rows * wide + rest)
            if rest and size > 1:
                last += (size - 1) * rest
                if rows:
                    return None
        if last >= row:
            return None
        return StridedView(self.shape, tuple(strides), first * wide + begin + within)

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """The number of the element behind the last."""
        ends = zip(self.shape, self.strides, strict=True)
        last = sum((size - 1) * step for size, step in ends)
        return self.start + last + 1 if self.elements else self.start

    def __str__(self) -> str:
        sizes, steps = ("x".join(map(str, one)) for one in (self.shape, self.strides))
        return f"{sizes}:{steps}+{self.start}"
