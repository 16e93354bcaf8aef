"""`EpilogueGradientProblem`: what a fused convolution's gradients begin with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind.problem import Activation, ActivationKind
from convfind.problem.activation_slope import slope_of_argument, slope_of_result, tells_slope
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, shape_of

#: Roundings that the slope of an activation has, of its library's functions most of all.
_ROUNDINGS = 64
#: Roundings of a sum beside one for each of its terms.
_ROUNDINGS_OF_SUM = 8


@dataclass(frozen=True, kw_only=True)
class EpilogueGradientProblem(Operator):
    """The gradient behind an activation, and its sum by channel, in one pass.

    ``dx = dy * activation'(x)`` for each element, and with ``bias`` the bias's gradient: the sum
    of ``dx`` over everything but the channels, which are axis 1. With ``of_result`` x is what the
    activation made of its argument. Without activation dx is dy, so that only ``dbias`` is
    written, and x is not read.
    """

    kind: ClassVar[str] = "epilogue-gradient"

    x: Shape
    activation: Activation | None = None
    bias: bool = True
    of_result: bool = False

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        if len(self.x) < 2:
            raise ProblemError("x", self.x, "a shape with channels as its second axis")
        if self.activation is not None:
            self._set("activation", Activation.of(self.activation))
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "a floating type")
        if self.activation is None and not self.bias:
            raise ProblemError("bias", False, "True where there is no activation")
        if self.of_result and (self.activation is None or not tells_slope(self.activation)):
            how = "False: results of this activation do not tell its slope"
            raise ProblemError("of_result", True, how)

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        of_bias = (("dbias", (self.x[1],), self.dtype),) if self.bias else ()
        names = ("dy",) if self.activation is None else ("dy", "x", "dx")
        return (*of_bias, *((name, self.x, self.dtype) for name in names))

    @property
    def writes(self) -> tuple[str, ...]:
        """The gradient before the activation, and that of the bias."""
        of_sums = () if self.activation is None else ("dx",)
        return (*of_sums, *(("dbias",) if self.bias else ()))

    @property
    def is_along_channels(self) -> bool:
        """True if channels are neighbours in memory."""
        return self.channels_last or math.prod(self.x[2:]) == 1

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Multiply by slopes, and add up."""
        dx = inputs["dy"]
        results = {}
        if self.activation is not None:
            slope = slope_of_result if self.of_result else slope_of_argument
            with np.errstate(all="ignore"):
                dx = results["dx"] = dx * slope(self.activation, inputs["x"])
        if self.bias:
            results["dbias"] = self._summed(dx)
        return results

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of slopes and sums come to."""
        unit = self.dtype.arithmetic.unit_roundoff
        size = np.abs(inputs["dy"])
        error = np.zeros(self.x)
        if self.activation is not None:
            error = size * self._error_of_slope(self.activation, inputs["x"], unit)
            size = np.abs(results["dx"])
        errors = {"dx": error}
        if self.bias:
            terms = math.prod(self.x) // max(self.x[1], 1) + _ROUNDINGS_OF_SUM
            errors["dbias"] = self._summed(error) + terms * unit * self._summed(size)
        return errors

    def _error_of_slope(self, activation: Activation, x: Array, unit: float) -> Array:
        """Return how far a slope may be off."""
        numbers = activation.numbers
        with np.errstate(all="ignore"):
            if activation.kind is ActivationKind.POWER:
                return self._error_of_power(activation, x, unit)
            size = 2.0 * max(1.0, *map(abs, numbers), abs(math.prod(numbers)), 1.0)
            if self.of_result:
                finite = np.where(np.isfinite(x), x, 0.0)
                size = size * (1 + np.abs(finite) + finite * finite)
            error = _ROUNDINGS * unit * size + np.zeros_like(x)
            if activation.kind is ActivationKind.HARD_SIGMOID and not self.of_result:
                scale, shift = numbers
                line = scale * x + shift
                reach = 4 * unit * (np.abs(scale * x) + abs(shift) + 1)
                near = (np.abs(line) <= reach) | (np.abs(line - 1) <= reach)
                error = np.where(near, abs(scale), error)
        return error

    @staticmethod
    def _error_of_power(activation: Activation, x: Array, unit: float) -> Array:
        shift, scale, exponent = activation.numbers
        base = shift + scale * x
        off = np.where(np.isfinite(x), 4 * unit * (abs(shift) + np.abs(scale * x)), 0.0)
        slopes = slope_of_argument(activation, x)
        low = slope_of_argument(activation, x - off / abs(scale or 1.0))
        high = slope_of_argument(activation, x + off / abs(scale or 1.0))
        spread = np.maximum(np.abs(low - slopes), np.abs(high - slopes))
        roundings = _ROUNDINGS * unit * (1 + np.abs(np.log(np.maximum(base, 1e-6)) * exponent))
        return spread + roundings * np.abs(slopes)

    def _summed(self, values: Array) -> Array:
        return np.asarray(values.sum(axis=(0, *range(2, len(self.x)))))
