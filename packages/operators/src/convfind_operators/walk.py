"""`Walk`: the order in which a kernel goes through its tensors, with as few axes as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from convfind_operators.element_type import ElementType
from convfind_operators.operand import Operand, Shape

#: Axes that kernels know: those of the rows, and the row itself.
MOST_AXES = 6


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a tensor as a walk meets them: the first, and the step along each axis."""

    name: str
    dtype: ElementType
    start: int
    steps: Shape

    @classmethod
    def of(cls, operand: Operand) -> Self:
        """Return the view of a whole tensor along its own axes."""
        return cls(operand.name, operand.dtype, 0, operand.strides)

    @classmethod
    def broadcast(cls, operand: Operand, sizes: Shape) -> Self:
        """Return the view of a tensor that is repeated to a shape, by NumPy's rules."""
        missing = len(sizes) - len(operand.shape)
        steps = (
            0 if size == 1 else step
            for size, step in zip(operand.shape, operand.strides, strict=True)
        )
        return cls(operand.name, operand.dtype, 0, (0,) * missing + tuple(steps))


@dataclass(frozen=True, slots=True)
class Walk:
    """Axes that several views share, outermost first; the last view is that which is written."""

    sizes: Shape
    views: tuple[View, ...]

    @property
    def elements(self) -> int:
        """Elements that the walk meets."""
        count = 1
        for size in self.sizes:
            count *= size
        return count

    @property
    def length(self) -> int:
        """Elements of a row: along the innermost axis."""
        return self.sizes[-1]

    @property
    def rows(self) -> int:
        """Rows: positions along all axes but the innermost."""
        return self.elements // self.length if self.length else 0

    def simplified(self) -> Walk:
        """Return the walk in the order of the result's memory, with axes merged where it may be."""
        order = sorted(
            (axis for axis, size in enumerate(self.sizes) if size != 1),
            key=lambda axis: [-abs(view.steps[axis]) for view in reversed(self.views)],
        )
        return self.along(order).merged()

    def along(self, order: Sequence[int]) -> Walk:
        """Return the walk along these axes only, in this order."""
        return Walk(
            tuple(self.sizes[axis] for axis in order),
            tuple(
                replace(view, steps=tuple(view.steps[axis] for axis in order))
                for view in self.views
            ),
        )

    def merged(self) -> Walk:
        """Return the walk with one axis for neighbours that all views meet as one."""
        sizes: list[int] = []
        steps: list[list[int]] = [[] for _ in self.views]
        for axis, size in enumerate(self.sizes):
            new = [view.steps[axis] for view in self.views]
            if sizes and all(of[-1] == step * size for of, step in zip(steps, new, strict=True)):
                sizes[-1] *= size
                for of, step in zip(steps, new, strict=True):
                    of[-1] = step
            else:
                sizes.append(size)
                for of, step in zip(steps, new, strict=True):
                    of.append(step)
        if not sizes:
            sizes, steps = [1], [[1] for _ in self.views]
        return Walk(
            tuple(sizes),
            tuple(
                replace(view, steps=tuple(of)) for view, of in zip(self.views, steps, strict=True)
            ),
        )
