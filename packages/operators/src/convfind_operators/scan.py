"""Operators that go along an axis in order: `ArgReductionProblem`, `CumulativeSumProblem`, kin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, shape_of
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class Scan(Operator):
    """Lines of x along an axis, met from one end to the other."""

    x: Shape
    axis: int

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        axis = self.axis + len(self.x) if self.axis < 0 else self.axis
        if not 0 <= axis < len(self.x) or 0 in self.x:
            raise ProblemError("axis", self.axis, f"an axis of {self.x}, which has elements")
        self._set("axis", axis)
        super().__post_init__()

    @property
    @abstractmethod
    def operation(self) -> int:
        """The number of ``scan.cl``."""

    @property
    @abstractmethod
    def is_late(self) -> bool:
        """The other way to do it: ``LAST`` of ``scan.cl``."""

    @property
    def is_backward(self) -> bool:
        """True if lines are met from their end."""
        return False

    @property
    def lines(self) -> Walk:
        """All lines, by their first elements."""
        x, y = self.operand("x"), self.result
        views = []
        for operand in (x, y):
            steps = list(operand.strides)
            start = 0
            if len(steps) < len(self.x):
                steps.insert(self.axis, 0)
            elif self.is_backward:
                start = steps[self.axis] * (self.x[self.axis] - 1)
            views.append(View(operand.name, operand.dtype, start, tuple(steps)))
        walk = Walk(self.x, tuple(views))
        return walk.along([axis for axis in range(len(self.x)) if axis != self.axis])

    @property
    def flops(self) -> float:
        """One for each element of x."""
        return float(self.operand("x").elements)


@dataclass(frozen=True, kw_only=True)
class ArgReductionProblem(Scan):
    """Where the largest or the least element along an axis is, as int64; the first NaN is it.

    Attributes:
        x: shape of the operand.
        axis: below zero it counts from the last.
        largest: whether it is the largest, or the least.
        keepdims: whether y keeps the axis, with size 1.
        last: of equal elements, whether the last one counts, or the first.
    """

    kind: ClassVar[str] = "arg-reduction"

    largest: bool = True
    keepdims: bool = True
    last: bool = False

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        kept = (1,) if self.keepdims else ()
        result = (*self.x[: self.axis], *kept, *self.x[self.axis + 1 :])
        return ("x", self.x, self.dtype), ("y", result, ElementType.INT64)

    @property
    def operation(self) -> int:
        """The largest or the least."""
        return 0 if self.largest else 1

    @property
    def is_late(self) -> bool:
        """True if of equal elements the last is it."""
        return self.last

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Search along the axis."""
        search = np.argmax if self.largest else np.argmin
        x = np.flip(inputs["x"], self.axis) if self.last else inputs["x"]
        found = search(x, axis=self.axis, keepdims=self.keepdims)
        return {"y": np.asarray(self.x[self.axis] - 1 - found if self.last else found)}


@dataclass(frozen=True, kw_only=True)
class CumulativeSumProblem(Scan):
    """Sums of the elements up to each one along an axis.

    Attributes:
        x: shape of the operand.
        axis: below zero it counts from the last.
        exclusive: whether the element itself is left out.
        reverse: whether sums begin at the end.
    """

    kind: ClassVar[str] = "cumulative-sum"

    exclusive: bool = False
    reverse: bool = False

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return ("x", self.x, self.dtype), ("y", self.x, self.dtype)

    @property
    def operation(self) -> int:
        """Sums."""
        return 2

    @property
    def is_late(self) -> bool:
        """True if the element itself is left out."""
        return self.exclusive

    @property
    def is_backward(self) -> bool:
        """True if sums begin at the end."""
        return self.reverse

    #: The function that adds elements, and the number that sums begin with.
    _accumulate: ClassVar[Callable[..., Array]] = staticmethod(np.cumsum)
    _first: ClassVar[int] = 0

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Add along the axis."""
        return {"y": self._sums(inputs["x"])}

    def _sums(self, x: Array) -> Array:
        ordered = np.flip(x, self.axis) if self.reverse else x
        sums = self._accumulate(ordered, axis=self.axis, dtype=x.dtype)
        if self.exclusive:
            first = np.full_like(np.take(sums, [0], axis=self.axis), self._first)
            kept = np.take(sums, range(self.x[self.axis] - 1), axis=self.axis)
            sums = np.concatenate([first, kept], axis=self.axis)
        return np.flip(sums, self.axis) if self.reverse else sums

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of the longest sum come to."""
        sums = self._sums(np.abs(inputs["x"]))
        return {"y": self.x[self.axis] * self.dtype.arithmetic.unit_roundoff * sums}


@dataclass(frozen=True, kw_only=True)
class CumulativeProductProblem(CumulativeSumProblem):
    """Products of the elements up to each one along an axis; see `CumulativeSumProblem`."""

    kind: ClassVar[str] = "cumulative-product"
    _accumulate: ClassVar[Callable[..., Array]] = staticmethod(np.cumprod)
    _first: ClassVar[int] = 1

    @property
    def operation(self) -> int:
        """Products."""
        return 3
