"""Elements chosen by number: `GatherProblem` chooses slices, `GatherElementsProblem` elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Operand, Shape
from convfind_operators.operator import Operator, shape_of, word
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class Gathering(Operator):
    """Elements of x chosen by numbers along an axis: below zero from the end; never out of range.

    Attributes:
        x: shape of the tensor that elements are chosen from.
        indices: shape of the indices.
        axis: along which; below zero it counts from the last.
        index_dtype: their type, int64 or int32.
    """

    x: Shape
    indices: Shape
    axis: int = 0
    index_dtype: ElementType = ElementType.INT64

    def __post_init__(self) -> None:
        for name in ("x", "indices"):
            self._set(name, shape_of(name, getattr(self, name)))
        self._set("index_dtype", word("index_dtype", ElementType, self.index_dtype))
        axis = self.axis + len(self.x) if self.axis < 0 else self.axis
        if not 0 <= axis < len(self.x) or 0 in self.x:
            raise ProblemError("axis", self.axis, f"an axis of {self.x}, which has elements")
        self._set("axis", axis)
        if self.index_dtype not in (ElementType.INT64, ElementType.INT32):
            raise ProblemError("index_dtype", self.index_dtype, "int64, int32")
        super().__post_init__()

    @property
    @abstractmethod
    def shape_of_result(self) -> Shape:
        """The shape of y."""

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return (
            ("x", self.x, self.dtype),
            ("indices", self.indices, self.index_dtype),
            ("y", self.shape_of_result, self.dtype),
        )

    @property
    @abstractmethod
    def walk(self) -> Walk:
        """x, the indices and y along the axes of y."""

    def _drawn(self, operand: Operand, rng: np.random.Generator) -> Array:
        if operand.name != "indices":
            return super()._drawn(operand, rng)
        size = self.x[self.axis]
        return rng.integers(-size, size, operand.shape)


@dataclass(frozen=True, kw_only=True)
class GatherProblem(Gathering):
    """Slices of x along an axis: the shape of the indices takes the place of the axis."""

    kind: ClassVar[str] = "gather"

    @property
    def shape_of_result(self) -> Shape:
        """The shape of x with that of the indices in the place of the axis."""
        return (*self.x[: self.axis], *self.indices, *self.x[self.axis + 1 :])

    @property
    def walk(self) -> Walk:
        """x, the indices and y along the axes of y."""
        x, indices, y = self.operands
        before, after = self.axis, len(self.x) - self.axis - 1
        none = (0,) * len(self.indices)
        steps = (*x.strides[:before], *none, *x.strides[before + 1 :])
        places = (0,) * before + indices.strides + (0,) * after
        views = (View("x", x.dtype, 0, steps), View("indices", indices.dtype, 0, places))
        return Walk(y.shape, (*views, View.of(y)))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Choose."""
        return {"y": np.take(inputs["x"], inputs["indices"], axis=self.axis)}


@dataclass(frozen=True, kw_only=True)
class GatherElementsProblem(Gathering):
    """An element of x for every index, in the index's own line along an axis."""

    kind: ClassVar[str] = "gather-elements"

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = [
            axis == self.axis or size <= self.x[axis]
            for axis, size in enumerate(self.indices[: len(self.x)])
        ]
        if len(self.indices) != len(self.x) or not all(fits):
            raise ProblemError("indices", self.indices, f"a shape within {self.x}")

    @property
    def shape_of_result(self) -> Shape:
        """The shape of the indices."""
        return self.indices

    @property
    def walk(self) -> Walk:
        """x, the indices and y along the axes of y."""
        x, indices, y = self.operands
        steps = tuple(0 if axis == self.axis else step for axis, step in enumerate(x.strides))
        return Walk(y.shape, (View("x", x.dtype, 0, steps), View.of(indices), View.of(y)))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Choose."""
        indices = inputs["indices"]
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[self.axis] = indices
        return {"y": np.asarray(inputs["x"][tuple(places)])}
