"""`SoftmaxProblem`: exponentials along an axis, divided by their sum, or the logarithm of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.lines import Lines, LineWalk
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import shape_of
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class SoftmaxProblem(Lines):
    """``y = exp(x) / sum(exp(x))`` along an axis; with ``log`` its logarithm.

    Attributes:
        x: shape of the operand.
        axis: below zero it counts from the last.
        log: whether y is the logarithm.
    """

    kind: ClassVar[str] = "softmax"

    x: Shape
    axis: int = -1
    log: bool = False

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        axis = self.axis + len(self.x) if self.axis < 0 else self.axis
        if not 0 <= axis < len(self.x):
            raise ProblemError("axis", self.axis, f"an axis of {self.x}")
        self._set("axis", axis)
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "floating types")

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return ("x", self.x, self.dtype), ("y", self.x, self.dtype)

    @property
    def operation(self) -> str:
        """With or without a logarithm."""
        return "LOG_SOFTMAX" if self.log else "SOFTMAX"

    @property
    def walk(self) -> LineWalk:
        """Lines along the axis."""
        views = tuple(View.of(operand) for operand in self.operands)
        return LineWalk.of(Walk(self.x, views), (self.axis,))

    @property
    def flops(self) -> float:
        """Five for each element."""
        return 5.0 * self.result.elements

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compute it relative to the largest element, so that nothing overflows."""
        below, sums = self._terms(inputs["x"])
        return {"y": below - np.log(sums) if self.log else np.exp(below) / sums}

    def _terms(self, x: Array) -> tuple[Array, Array]:
        below = x - x.max(axis=self.axis, keepdims=True, initial=-np.inf)
        return below, np.exp(below).sum(axis=self.axis, keepdims=True)

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the exponentials and their sum may be off by."""
        below, _ = self._terms(inputs["x"])
        unit = self.dtype.arithmetic.unit_roundoff
        roundings = self.x[self.axis] + 20 + np.abs(np.where(np.isfinite(below), below, 0))
        size = 1 + np.abs(results["y"]) if self.log else np.abs(results["y"])
        return {"y": roundings * unit * size}
