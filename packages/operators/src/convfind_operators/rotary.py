"""`RotaryProblem`: elements turned with those of the other half of their row, as positions are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_map import ElementMap
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import Elementwise, broadcast
from convfind_operators.operand import Array, Operand, Shape
from convfind_operators.operator import shape_of
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class RotaryProblem(Elementwise):
    """``y = x * cos + swapped(x) * sin``, where the halves of each row are swapped.

    With sines that are negative in the first half it is a rotary embedding of positions, which
    turns the elements j and j + depth / 2 of a row. The result is not the memory of x.

    Attributes:
        x: the last axis is a row, of an even number of elements.
        cos, sin: shapes that are repeated to that of x.
    """

    kind: ClassVar[str] = "rotary"

    x: Shape
    cos: Shape
    sin: Shape

    def __post_init__(self) -> None:
        for name in ("x", "cos", "sin"):
            self._set(name, shape_of(name, getattr(self, name)))
        if not self.x or self.x[-1] % 2:
            raise ProblemError("x", self.x, "rows of an even number of elements")
        for name in ("cos", "sin"):
            shape = getattr(self, name)
            if broadcast(self.x, shape) != self.x:
                raise ProblemError(name, shape, f"a shape that is repeated to {self.x}")
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "floating types")

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        factors = (("cos", self.cos, self.dtype), ("sin", self.sin, self.dtype))
        return ("x", self.x, self.dtype), *factors, ("y", self.x, self.dtype)

    @property
    def map(self) -> ElementMap:
        """A sum of two products."""
        return ElementMap("ROTARY", self.dtype.arithmetic)

    @property
    def walk(self) -> Walk:
        """The halves of rows are an axis, along which the second view of x goes backwards."""
        x, cos, sin, y = (self._in_halves(operand) for operand in self.operands)
        *outer, half, step = x.steps
        other = replace(x, start=x.start + half, steps=(*outer, -half, step))
        sizes = (*self.x[:-1], 2, self.x[-1] // 2)
        return Walk(sizes, (x, other, cos, sin, y)).simplified()

    def _in_halves(self, operand: Operand) -> View:
        view = View.broadcast(operand, self.x)
        *outer, step = view.steps
        return replace(view, steps=(*outer, step * (self.x[-1] // 2), step))

    @property
    def flops(self) -> float:
        """Three for each element."""
        return 3.0 * self.result.elements

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Swap the halves, and add the products."""
        x = inputs["x"]
        return {"y": x * inputs["cos"] + _swapped(x) * inputs["sin"]}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what three roundings of the products come to."""
        x = np.abs(inputs["x"])
        products = x * np.abs(inputs["cos"]) + _swapped(x) * np.abs(inputs["sin"])
        return {"y": 3 * self.dtype.arithmetic.unit_roundoff * products}


def _swapped(x: Array) -> Array:
    return np.concatenate(np.split(x, 2, axis=-1)[::-1], axis=-1)
