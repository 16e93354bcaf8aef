"""`Arrangement`: a tensor in the memory of another one, its axes as factors that lie anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from convfind_networks.ops import Op, Reshape, Slice, Split, StridedView, Transpose

#: Sizes and strides of the axes that one axis is, outermost first; none where its size is 1.
_Factors = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The axes of a tensor, and the number of its first element in the memory.

    What is an axis of a tensor in between need not have a stride: heads that are part of a batch
    become an axis of their own again.
    """

    axes: tuple[_Factors, ...]
    start: int = 0

    @classmethod
    def packed(cls, shape: Sequence[int]) -> Self:
        """Return a tensor in memory of its own."""
        axes, step = list[_Factors](), 1
        for size in reversed(shape):
            axes.append(((size, step),) if size != 1 else ())
            step *= size
        return cls(tuple(reversed(axes)))

    def after(self, op: Op, at: int = 0) -> Arrangement | None:
        """Return a result of a rearrangement, by its number; None where it is no part of this."""
        match op:
            case Transpose(order=order):
                return Arrangement(tuple(self.axes[axis] for axis in order), self.start)
            case Reshape(shape=shape):
                return self.shaped(shape)
            case Split(axis=axis, sizes=sizes):
                return self._cut(axis, sum(sizes[:at]), sizes[at], 1)
            case Slice(begin=begin, count=count, step=step):
                part: Arrangement | None = self
                for axis, cut in enumerate(zip(begin, count, step, strict=True)):
                    part = part._cut(axis, *cut) if part is not None else None
                return part
        return None

    def before(self, op: Op, shape: Sequence[int]) -> Arrangement | None:
        """Return what an operation made this of, in the same memory: of this shape."""
        if isinstance(op, Transpose):
            return self.after(Transpose(tuple(map(int, np.argsort(op.order)))))
        return self.shaped(shape) if isinstance(op, Reshape) else None

    def shaped(self, shape: Sequence[int]) -> Arrangement | None:
        """Return the elements under another shape, where axes come apart as it needs them."""
        left = [factor for axis in self.axes for factor in axis][::-1]
        axes = []
        for size in shape:
            axis = list[tuple[int, int]]()
            while size != 1:
                if not left:
                    return None
                inner, step = left.pop()
                if inner and size % inner == 0:
                    axis.append((inner, step))
                    size //= inner
                elif size and inner % size == 0:
                    axis.append((size, step * (inner // size)))
                    left.append((inner // size, step))
                    size = 1
                else:
                    return None
            axes.append(tuple(axis))
        return None if left else Arrangement(tuple(axes), self.start)

    def view(self) -> StridedView | None:
        """Return shape and strides; None where an axis has no stride."""
        ends = [_merged(axis) for axis in self.axes]
        if any(len(axis) > 1 for axis in ends):
            return None
        one = [axis[0] if axis else (1, 0) for axis in ends]
        return StridedView(*_columns(one), self.start)

    def _cut(self, axis: int, begin: int, count: int, step: int) -> Arrangement | None:
        factors = _merged(self.axes[axis])
        size, stride = factors[0] if factors else (1, 0)
        if (begin, count, step) == (0, math.prod(one for one, _ in factors), 1):
            return self
        if len(factors) > 1 or not 0 <= begin < size or step < 1:
            return None
        cut: _Factors = ((count, stride * step),) if count != 1 else ()
        axes = (*self.axes[:axis], cut, *self.axes[axis + 1 :])
        return Arrangement(axes, self.start + begin * stride)


def _merged(axis: _Factors) -> _Factors:
    """Return factors with one for those that are evenly spaced."""
    merged = list[tuple[int, int]]()
    for size, step in axis:
        if merged and merged[-1][1] == step * size:
            merged[-1] = (merged[-1][0] * size, step)
        else:
            merged.append((size, step))
    return tuple(merged)


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes, steps = zip(*pairs, strict=True)
    return tuple(sizes), tuple(steps)
