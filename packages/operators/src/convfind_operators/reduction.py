"""`ReductionProblem`: one element for all along some axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.lines import Lines, LineWalk
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import shape_of, word
from convfind_operators.walk import View, Walk


class ReductionFunction(StrEnum):
    """The function that makes one element of many."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    L1 = "l1"
    L2 = "l2"
    LOG_SUM = "log-sum"
    LOG_SUM_EXP = "log-sum-exp"
    SUM_SQUARE = "sum-square"


@dataclass(frozen=True, kw_only=True)
class ReductionProblem(Lines):
    """One element for all of x along some axes, which have size 1 in y, or are left out.

    Global pooling is the mean or the maximum along the spatial axes.

    Attributes:
        x: shape of the operand.
        function: what makes one element of many.
        axes: along which; below zero they count from the last.
        keepdims: whether y keeps these axes, with size 1.
    """

    kind: ClassVar[str] = "reduction"

    x: Shape
    function: ReductionFunction
    axes: tuple[int, ...]
    keepdims: bool = True

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        self._set("function", word("function", ReductionFunction, self.function))
        rank = len(self.x)
        axes = tuple(sorted({axis + rank if axis < 0 else axis for axis in self.axes}))
        if any(not 0 <= axis < rank for axis in axes) or 0 in self.x:
            raise ProblemError("axes", self.axes, f"axes of {self.x}, whose sizes begin at 1")
        self._set("axes", axes)
        super().__post_init__()
        if self.function not in _OF_WHOLE_NUMBERS and not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, f"floating types for {self.function}")

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        sizes = enumerate(self.x)
        if self.keepdims:
            result = tuple(1 if axis in self.axes else size for axis, size in sizes)
        else:
            result = tuple(size for axis, size in sizes if axis not in self.axes)
        return ("x", self.x, self.dtype), ("y", result, self.dtype)

    @property
    def operation(self) -> str:
        """The function."""
        return self.function.upper().replace("-", "_")

    @property
    def gives_lines(self) -> bool:
        """Lines become numbers."""
        return False

    @property
    def walk(self) -> LineWalk:
        """Lines along the axes."""
        given = iter(self.result.strides)
        kept = [
            next(given) if self.keepdims or axis not in self.axes else 0
            for axis in range(len(self.x))
        ]
        steps = tuple(0 if axis in self.axes else step for axis, step in enumerate(kept))
        y = View("y", self.dtype, 0, steps)
        return LineWalk.of(Walk(self.x, (View.of(self.operand("x")), y)), self.axes)

    @property
    def flops(self) -> float:
        """One for each element of x."""
        return float(math.prod(self.x))

    def _drawn(self, operand: Any, rng: np.random.Generator) -> Array:
        drawn = super()._drawn(operand, rng)
        if self.function is ReductionFunction.LOG_SUM:
            return np.abs(drawn)
        return drawn / 2 + 1 if self.function is ReductionFunction.PROD else drawn

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Reduce."""
        with np.errstate(all="ignore"):
            return {"y": self._reduced(_REDUCE[self.function], inputs["x"])}

    def _reduced(self, function: Callable[..., Any], x: Array) -> Array:
        return np.asarray(function(x, axis=self.axes, keepdims=self.keepdims))

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of a line come to."""
        x, right = inputs["x"], np.abs(results["y"])
        count = math.prod(self.x[axis] for axis in self.axes)
        share = (count + 40) * self.dtype.arithmetic.unit_roundoff
        if self.function in (ReductionFunction.MAX, ReductionFunction.MIN):
            return {"y": np.zeros(right.shape)}
        sums = self._reduced(np.sum, np.abs(x))
        if self.function is ReductionFunction.LOG_SUM_EXP:
            return {"y": share * (1 + right + self._reduced(np.max, np.abs(x)))}
        if self.function is ReductionFunction.LOG_SUM:
            return {"y": share * (1 + right)}
        if self.function is ReductionFunction.MEAN:
            sums = sums / count
        return {"y": share * np.maximum(sums, right)}


def _log_sum_exp(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    largest = np.max(x, axis=axis, keepdims=True)
    origin = np.where(np.isfinite(largest), largest, 0)
    sums = np.log(np.sum(np.exp(x - origin), axis=axis, keepdims=True)) + origin
    return np.asarray(sums if keepdims else np.squeeze(sums, axis))


_REDUCE: dict[ReductionFunction, Callable[..., Any]] = {
    ReductionFunction.SUM: np.sum,
    ReductionFunction.MEAN: np.mean,
    ReductionFunction.MAX: np.max,
    ReductionFunction.MIN: np.min,
    ReductionFunction.PROD: np.prod,
    ReductionFunction.L1: lambda x, **where: np.sum(np.abs(x), **where),
    ReductionFunction.L2: lambda x, **where: np.sqrt(np.sum(np.square(x), **where)),
    ReductionFunction.LOG_SUM: lambda x, **where: np.log(np.sum(x, **where)),
    ReductionFunction.LOG_SUM_EXP: _log_sum_exp,
    ReductionFunction.SUM_SQUARE: lambda x, **where: np.sum(np.square(x), **where),
}
_OF_WHOLE_NUMBERS = {
    ReductionFunction.SUM,
    ReductionFunction.MAX,
    ReductionFunction.MIN,
    ReductionFunction.PROD,
    ReductionFunction.L1,
    ReductionFunction.SUM_SQUARE,
}
