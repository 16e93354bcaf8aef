"""`LocalResponseNormProblem`: division by a power of squares summed over nearby channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, shape_of


@dataclass(frozen=True, kw_only=True)
class LocalResponseNormProblem(Operator):
    """``y = x / (bias + alpha / size * sum(x^2))^beta`` over ``size`` channels around each."""

    kind: ClassVar[str] = "local-response-norm"

    x: Shape
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        if len(self.x) < 2:
            raise ProblemError("x", self.x, "batch, channels, and spatial sizes")
        if self.size < 1:
            raise ProblemError("size", self.size, "a number from 1 on")
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "floating types")

    @property
    def before(self) -> int:
        """Channels before each that count."""
        return (self.size - 1) // 2

    @property
    def after(self) -> int:
        """Channels behind each that count."""
        return math.ceil((self.size - 1) / 2)

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return ("x", self.x, self.dtype), ("y", self.x, self.dtype)

    @property
    def flops(self) -> float:
        """Two for each neighbour, and a power, of each element."""
        return float(2 * self.size + 10) * self.result.elements

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Sum the squares of the channels around each channel."""
        x = inputs["x"]
        padded = np.pad(x**2, [(0, 0), (self.before, self.after)] + [(0, 0)] * (x.ndim - 2))
        sums = sum(padded[:, at : at + x.shape[1]] for at in range(self.size))
        return {"y": np.asarray(x / (self.bias + self.alpha / self.size * sums) ** self.beta)}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the sum's roundings and the power's may come to."""
        roundings = (self.size + 8) * max(abs(self.beta), 1) + 24
        unit = self.dtype.arithmetic.unit_roundoff
        return {"y": roundings * unit * np.abs(results["y"])}
