"""`Operand`: a tensor that an operator reads or writes; its element type is one of more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.problem.tensor_spec import TensorSpec
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


@dataclass(frozen=True)
class Operand(TensorSpec):
    """A tensor in memory of its own name, some elements behind its beginning."""

    dtype: ElementType
    start: int = 0

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the memory up to the last element, gaps included."""
        return (self.start + self.span) * self.dtype.size if self.elements else 0

    def view(self, memory: Array) -> Array:
        """Return one-dimensional memory as an array; nothing is copied."""
        return super().view(memory.view(np.uint8)[self.start * self.dtype.size :])
