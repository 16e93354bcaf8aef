"""`TensorSpec`: an operand of a problem: name, shape, element type, place of its elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convfind.cached import cached_property
from convfind.types import Layout


class ElementType(Protocol):
    """The type of a tensor's elements: `DataType`, or what another problem type has beside it."""

    @property
    def value(self) -> str:
        """NumPy's name of the type."""

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in memory of its own.

    Attributes:
        name: the name under which steps and calls know it, an identifier.
        shape: sizes, in N, C, spatial order if it has such axes.
        dtype: the type of the elements.
        strides: steps along the axes of the shape, in elements.
        layout: the order of N, C and spatial axes in memory, in which arrays may be given, too;
            None if arrays only have that of the shape.
    """

    name: str
    shape: tuple[int, ...]
    dtype: ElementType
    strides: tuple[int, ...]
    layout: Layout | None = None

    @classmethod
    def packed(cls, name: str, shape: tuple[int, ...], dtype: ElementType) -> TensorSpec:
        """Describe a tensor without gaps, with its axes in memory order."""
        return cls(name, shape, dtype, packed_steps(shape))

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @cached_property
    def span(self) -> int:
        """Elements from the first to the last in memory, gaps included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))

    @cached_property
    def nbytes(self) -> int:
        """Bytes from the first element to the last in memory, gaps included."""
        return self.span * self.dtype.numpy.itemsize

    def in_memory(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Reorder values that belong to the axes of the shape into the order of the layout."""
        return values if self.layout is None else self.layout.to_memory(values)

    def arranged(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return an array of the shape with its axes in the order of the layout, not copied."""
        moves = self.layout is not None and self.layout.channels_last
        return np.moveaxis(array, 1, -1) if moves else array

    def view(self, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return one-dimensional memory as an array, with axes in the order of the layout.

        ``memory`` has at least `nbytes` bytes; nothing is copied.
        """
        dtype = self.dtype.numpy
        strides = tuple(step * dtype.itemsize for step in self.in_memory(self.strides))
        flat = memory.view(np.uint8)
        return np.ndarray(self.in_memory(self.shape), dtype, flat.data, 0, strides)


def are_disjoint(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return True where each element has a place of its own, as in any part of a packed tensor.

    False for negative strides.
    """
    reach = 0
    for step, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if step <= reach:
                return False
            reach += step * (size - 1)
    return True


def packed_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a packed tensor, in elements, with axes in memory order."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))
