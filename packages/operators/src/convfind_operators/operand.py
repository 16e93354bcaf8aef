"""`Operand`: a tensor that an operator reads or writes: name, shape, type, place of elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind_operators.element_type import ElementType

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def packed_strides(shape: Shape, *, channels_last: bool = False) -> Shape:
    """Return strides, in elements, of a tensor without gaps; axis 1 is that of the channels."""
    order = list(range(len(shape)))
    if channels_last and len(shape) > 2:
        order.append(order.pop(1))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor in memory of its own name; strides are in elements, in the order of the shape."""

    name: str
    shape: Shape
    dtype: ElementType
    strides: Shape

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """Elements from the first to the last in memory, with the gaps in between."""
        if not self.elements:
            return 0
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of memory from the first element to the last."""
        return self.span * self.dtype.size

    def view(self, memory: Array) -> Array:
        """Return memory of at least `nbytes` bytes as an array of the operand's shape."""
        flat = memory.view(np.uint8)[: self.nbytes].view(self.dtype.numpy)
        steps = tuple(step * self.dtype.size for step in self.strides)
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps)
