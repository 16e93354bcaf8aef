"""`TopKProblem`: the largest or the least elements along an axis, in order, and their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, shape_of
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class TopKProblem(Operator):
    """The first of the elements along an axis in falling or rising order; a NaN is the largest.

    Among equal elements, the earlier one comes first. The int64 ``indices`` say where they are.

    Attributes:
        x: shape of the operand.
        count: how many elements.
        axis: below zero it counts from the last.
        largest: whether the largest come first, or the least.
    """

    kind: ClassVar[str] = "top-k"

    x: Shape
    count: int
    axis: int = -1
    largest: bool = True

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        axis = self.axis + len(self.x) if self.axis < 0 else self.axis
        if not 0 <= axis < len(self.x):
            raise ProblemError("axis", self.axis, f"an axis of {self.x}")
        self._set("axis", axis)
        if not 0 <= self.count <= self.x[axis]:
            raise ProblemError("count", self.count, f"a number up to {self.x[axis]}")
        super().__post_init__()

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        result = (*self.x[: self.axis], self.count, *self.x[self.axis + 1 :])
        return (
            ("x", self.x, self.dtype),
            ("y", result, self.dtype),
            ("indices", result, ElementType.INT64),
        )

    @property
    def writes(self) -> tuple[str, ...]:
        """The elements, and their places."""
        return "y", "indices"

    @property
    def lines(self) -> Walk:
        """All lines, by their first elements."""
        views = tuple(map(View.of, self.operands))
        others = [axis for axis in range(len(self.x)) if axis != self.axis]
        return Walk(self.x, views).along(others).simplified()

    @property
    def flops(self) -> float:
        """A comparison of each element for each that is found."""
        return float(self.operand("x").elements * self.count)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Sort; of equal elements the first comes first."""
        x = inputs["x"]
        if self.largest:
            backwards = np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable")
            order = self.x[self.axis] - 1 - np.flip(backwards, self.axis)
        else:
            order = np.argsort(x, axis=self.axis, kind="stable")
        places = np.take(order, np.arange(self.count), axis=self.axis)
        return {"y": np.take_along_axis(x, places, self.axis), "indices": places}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return that elements are as they were."""
        return {name: np.zeros(right.shape) for name, right in results.items()}
