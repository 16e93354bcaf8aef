"""`ScatterElementsProblem`: elements of x replaced by, or combined with, updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Operand, Shape
from convfind_operators.operator import Operator, shape_of, word
from convfind_operators.walk import View, Walk


class Combine(StrEnum):
    """The combination of an element with an update of it."""

    REPLACE = "none"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, kw_only=True)
class ScatterElementsProblem(Operator):
    """x with an update of an element for every index, in the index's own line along an axis.

    Indices below zero count from the end; one that is out of range updates nothing. Updates of an
    element come one after the other, in the order of their indices.

    Attributes:
        indices: shape of the indices and of the updates.
        index_dtype: type of the indices, int64 or int32.
    """

    kind: ClassVar[str] = "scatter-elements"

    x: Shape
    indices: Shape
    axis: int = 0
    combine: Combine = Combine.REPLACE
    index_dtype: ElementType = ElementType.INT64

    def __post_init__(self) -> None:
        for name in ("x", "indices"):
            self._set(name, shape_of(name, getattr(self, name)))
        self._set("combine", word("combine", Combine, self.combine))
        self._set("index_dtype", word("index_dtype", ElementType, self.index_dtype))
        axis = self.axis + len(self.x) if self.axis < 0 else self.axis
        if not 0 <= axis < len(self.x):
            raise ProblemError("axis", self.axis, f"an axis of {self.x}")
        self._set("axis", axis)
        fits = [
            at == axis or size <= self.x[at] for at, size in enumerate(self.indices[: len(self.x)])
        ]
        if len(self.indices) != len(self.x) or not all(fits):
            raise ProblemError("indices", self.indices, f"a shape within {self.x}")
        if self.index_dtype not in (ElementType.INT64, ElementType.INT32):
            raise ProblemError("index_dtype", self.index_dtype, "int64, int32")
        super().__post_init__()

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return (
            ("x", self.x, self.dtype),
            ("indices", self.indices, self.index_dtype),
            ("updates", self.indices, self.dtype),
            ("y", self.x, self.dtype),
        )

    @property
    def copy(self) -> Walk:
        """All of x, and y."""
        return Walk(self.x, (View.of(self.operand("x")), View.of(self.result))).simplified()

    @property
    def lines(self) -> Walk:
        """Lines of indices, of updates and of y, by their first elements."""
        views = (View.of(self.operand(name)) for name in ("indices", "updates", "y"))
        others = [axis for axis in range(len(self.x)) if axis != self.axis]
        return Walk(self.indices, tuple(views)).along(others).simplified()

    @property
    def flops(self) -> float:
        """One for each update."""
        return float(self.operand("updates").elements)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Update one element after the other."""
        return {"y": self._updated(inputs["x"], inputs["indices"], inputs["updates"])}

    def _updated(self, x: Array, indices: Array, updates: Array) -> Array:
        size = self.x[self.axis]
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[self.axis] = np.where(indices < 0, indices + size, indices)
        whole = np.broadcast_arrays(*places)
        inside = (whole[self.axis] >= 0) & (whole[self.axis] < size)
        picked = tuple(one[inside] for one in whole)
        y = x.copy()
        if self.combine is Combine.REPLACE:
            y[picked] = updates[inside]
        else:
            _COMBINE[self.combine].at(y, picked, updates[inside])
        return y

    def _drawn(self, operand: Operand, rng: np.random.Generator) -> Array:
        if operand.name != "indices":
            return super()._drawn(operand, rng)
        size = self.x[self.axis]
        return rng.integers(-size, size, operand.shape)

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of all updates of an element come to."""
        if self.combine not in (Combine.ADD, Combine.MUL):
            return {"y": np.zeros(results["y"].shape)}
        sizes = self._updated(np.abs(inputs["x"]), inputs["indices"], np.abs(inputs["updates"]))
        roundings = self.indices[self.axis] + 1  # each result is stored in between
        return {"y": roundings * self.dtype.unit_roundoff * sizes}


_COMBINE: dict[Combine, Any] = {
    Combine.ADD: np.add,
    Combine.MUL: np.multiply,
    Combine.MAX: np.maximum,
    Combine.MIN: np.minimum,
}
