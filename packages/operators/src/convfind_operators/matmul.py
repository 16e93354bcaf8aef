"""`MatMulProblem`: products of matrices, or of batches of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.checking.accuracy import TF32_ROUNDOFF
from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import broadcast
from convfind_operators.operand import Array, Operand, Shape
from convfind_operators.operator import Operator, number, shape_of
from convfind_operators.walk import View, Walk


@dataclass(frozen=True, kw_only=True)
class MatMulProblem(Operator):
    """``y = alpha * (a @ b)``: the last two axes by NumPy's rules, the others repeated.

    Matrices that lie transposed are those with such strides.

    Attributes:
        a: the shape of the left factor.
        b: the shape of the right factor.
        alpha: what all sums are multiplied by before they are stored; 1 for whole numbers.
        allow_tf32: whether factors of float32 may be rounded to TF32.
    """

    kind: ClassVar[str] = "matmul"

    a: Shape
    b: Shape
    alpha: float = 1.0
    allow_tf32: bool = False

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            self._set(name, shape_of(name, getattr(self, name)))
        if not self.a or not self.b or self.a[-1] != self.b[max(len(self.b) - 2, 0)]:
            raise ProblemError("b", self.b, f"a shape with {self.a[-1:]} rows")
        super().__post_init__()
        self._set("alpha", number("alpha", self.alpha))
        if self.alpha != 1 and not self.dtype.is_float:
            raise ProblemError("alpha", self.alpha, f"1 for products of {self.dtype}")
        if self.dtype is not ElementType.FLOAT32:
            self._set("allow_tf32", False)  # the same, as other types are not rounded to it

    @property
    def m(self) -> int:
        """Rows of a matrix of y."""
        return self.a[-2] if len(self.a) > 1 else 1

    @property
    def k(self) -> int:
        """Products of a sum."""
        return self.a[-1]

    @property
    def n(self) -> int:
        """Columns of a matrix of y."""
        return self.b[-1] if len(self.b) > 1 else 1

    @property
    def batch(self) -> Shape:
        """The common shape of the other axes."""
        return broadcast(self.a[:-2], self.b[:-2])

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        result = (*self.batch, *self.a[-2:-1], *(self.b[-1:] if len(self.b) > 1 else ()))
        return ("a", self.a, self.dtype), ("b", self.b, self.dtype), ("y", result, self.dtype)

    @property
    def walk(self) -> Walk:
        """The batch, then rows, sums and columns; each operand has no step where it has no axis."""
        sizes = (*self.batch, self.m, self.k, self.n)
        a, b, y = self.operands
        (a_row, a_column), (b_row, b_column) = _last(a, self.a), _last(b, self.b, column=True)
        steps = list(y.strides[len(self.batch) :])
        y_row = steps.pop(0) if len(self.a) > 1 else 0
        y_column = steps.pop(0) if len(self.b) > 1 else 0
        return Walk(
            sizes,
            (
                self._view(a, (a_row, a_column, 0)),
                self._view(b, (0, b_row, b_column)),
                View("y", y.dtype, 0, (*y.strides[: len(self.batch)], y_row, 0, y_column)),
            ),
        )

    def _view(self, operand: Operand, last: tuple[int, int, int]) -> View:
        outer = Operand(operand.name, operand.shape[:-2], operand.dtype, operand.strides[:-2])
        return View(
            operand.name, operand.dtype, 0, (*View.broadcast(outer, self.batch).steps, *last)
        )

    @property
    def flops(self) -> float:
        """Two for each product."""
        return 2.0 * math.prod((*self.batch, self.m, self.k, self.n))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Multiply."""
        product = np.asarray(inputs["a"] @ inputs["b"])
        return {"y": product if self.alpha == 1 else self.alpha * product}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of a sum come to."""
        sums = abs(self.alpha) * np.asarray(np.abs(inputs["a"]) @ np.abs(inputs["b"]))
        factors = 2 * TF32_ROUNDOFF if self.allow_tf32 else 0.0
        return {"y": ((self.k + 3) * self.dtype.arithmetic.unit_roundoff + factors) * sums}


def _last(operand: Operand, shape: Shape, *, column: bool = False) -> tuple[int, int]:
    """Return the steps of rows and columns; a vector is a row, or a column."""
    if len(shape) > 1:
        return operand.strides[-2], operand.strides[-1]
    return (operand.strides[0], 0) if column else (0, operand.strides[0])
