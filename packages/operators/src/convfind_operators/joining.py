"""`ConcatProblem`, `SplitProblem`: tensors joined along an axis, and taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.operand import Array, Operand, Shape
from convfind_operators.operator import shape_of
from convfind_operators.rearrangement import OfOneTensor, Rearrangement, Tensors
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class ConcatProblem(Rearrangement):
    """Tensors ``x0``, ``x1``, .. behind each other along an axis.

    Attributes:
        shapes: of the tensors; they differ along the axis alone.
        axis: from 0 on.
    """

    kind: ClassVar[str] = "concat"

    shapes: tuple[Shape, ...]
    axis: int

    def __post_init__(self) -> None:
        self._set("shapes", tuple(shape_of("shapes", shape) for shape in self.shapes))
        ranks = {len(shape) for shape in self.shapes}
        others = {shape[: self.axis] + shape[self.axis + 1 :] for shape in self.shapes}
        if len(ranks) != 1 or not 0 <= self.axis < min(ranks) or len(others) != 1:
            raise ProblemError("shapes", self.shapes, f"shapes that differ along axis {self.axis}")
        super().__post_init__()

    def _tensors(self) -> Tensors:
        first, size = self.shapes[0], sum(shape[self.axis] for shape in self.shapes)
        result = (*first[: self.axis], size, *first[self.axis + 1 :])
        inputs = ((f"x{at}", shape, self.dtype) for at, shape in enumerate(self.shapes))
        return *inputs, ("y", result, self.dtype)

    @property
    def moves(self) -> tuple[Walk, ...]:
        """One for each tensor."""
        parts = map(self.operand, self.reads)
        return tuple(
            Walk(part.shape, (View.of(part), place))
            for part, place in _pieces(self.result, self.axis, list(parts))
        )

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Concatenate."""
        return {"y": np.concatenate([inputs[name] for name in self.reads], axis=self.axis)}


@dataclass(frozen=True, kw_only=True)
class SplitProblem(OfOneTensor):
    """Pieces ``y0``, ``y1``, .. of x along an axis.

    Attributes:
        axis: from 0 on.
        sizes: of the pieces along the axis, which together are x.
    """

    kind: ClassVar[str] = "split"

    axis: int
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        self._set("sizes", tuple(map(int, self.sizes)))
        if not 0 <= self.axis < len(self.x) or sum(self.sizes) != self.x[self.axis]:
            raise ProblemError("sizes", self.sizes, f"sizes along axis {self.axis} of {self.x}")
        super().__post_init__()

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the pieces."""
        return tuple(f"y{at}" for at in range(len(self.sizes)))

    @property
    def shape_of_result(self) -> Shape:
        """The shape of the first piece."""
        return self._shape(self.sizes[0])

    def _shape(self, size: int) -> Shape:
        return (*self.x[: self.axis], size, *self.x[self.axis + 1 :])

    def _tensors(self) -> Tensors:
        pieces = (
            (name, self._shape(size), self.dtype)
            for name, size in zip(self.writes, self.sizes, strict=True)
        )
        return ("x", self.x, self.dtype), *pieces

    @property
    def moves(self) -> tuple[Walk, ...]:
        """One for each piece."""
        parts = list(map(self.operand, self.writes))
        return tuple(
            Walk(part.shape, (place, View.of(part)))
            for part, place in _pieces(self.operand("x"), self.axis, parts)
        )

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Cut."""
        cuts = np.cumsum(self.sizes)[:-1]
        return dict(zip(self.writes, np.split(inputs["x"], cuts, axis=self.axis), strict=True))


def _pieces(whole: Operand, axis: int, parts: Sequence[Operand]) -> Iterator[tuple[Operand, View]]:
    """Yield the parts of a tensor along an axis, with the views of their places in it."""
    at = 0
    for part in parts:
        yield part, View(whole.name, whole.dtype, at * whole.strides[axis], whole.strides)
        at += part.shape[axis]
