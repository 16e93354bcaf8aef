"""`Activation`: a function of each result of a convolution, by its kind and its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self, SupportsFloat

import numpy as np

from convfind.arguments import python_scalar, similar
from convfind.errors import ProblemError

Array = np.ndarray[Any, Any]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Function = Callable[..., Any]  # of doubles and the kind's numbers

_LARGEST = float(np.finfo(np.float32).max)
#: Up to this base a power is 0.
_LEAST_BASE: Final = 1e-6


class ActivationKind(StrEnum):
    """The functions of ``convfind_activation.h``, by the numbers a, b and c where they have any."""

    RELU = "relu"
    CLIP = "clip"  # between a and b; ReLU6 is clip(0, 6)
    LEAKY = "leaky"  # below zero a * x
    ELU = "elu"  # below zero a * (exp(x) - 1)
    SIGMOID = "sigmoid"
    TANH = "tanh"  # b * tanh(a * x)
    SILU = "silu"  # x * sigmoid(x)
    HARD_SWISH = "hard-swish"  # x * (x / 6 + 1 / 2), the factor between 0 and 1
    HARD_SIGMOID = "hard-sigmoid"  # a * x + b, between 0 and 1
    GELU_ERF = "gelu-erf"  # x * (1 + erf(x / sqrt(2))) / 2
    GELU_TANH = "gelu-tanh"  # x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
    MISH = "mish"  # x * tanh(log(1 + exp(x)))
    SOFTPLUS = "softplus"  # log(1 + exp(a * x)) / a, of an a above zero
    ABS = "abs"
    POWER = "power"  # (a + b * x)^c; 0 where the base is at most 1e-6

    @property
    def macro(self) -> str:
        """The word of ``convfind_activation.h``."""
        return self.upper().replace("-", "_")

    @property
    def defaults(self) -> tuple[float, ...]:
        """The numbers that it has if none are given."""
        return _DEFAULTS.get(self, ())


@dataclass(frozen=True, slots=True, init=False)
class Activation:
    """A function of each result: ``Activation("leaky", 0.1)``; called, it computes in float64.

    Attributes:
        kind: which function; see `ActivationKind`.
        numbers: its numbers; those left out have the defaults of the kind.

    Raises:
        ProblemError: an unknown kind, too many numbers, or one that is impossible.
    """

    kind: ActivationKind
    numbers: tuple[float, ...]

    def __init__(self, kind: ActivationKind | str, *numbers: SupportsFloat) -> None:
        try:
            kind = ActivationKind(kind)
        except ValueError:
            legal = ", ".join(similar(str(kind), list(ActivationKind)) or ActivationKind)
            raise ProblemError("activation", kind, legal) from None
        defaults = kind.defaults
        if len(numbers) > len(defaults):
            how = f"{kind} with {len(defaults)} numbers at most"
            raise ProblemError("activation", f"{kind}{numbers}", how)
        given = tuple(_number(kind, number) for number in numbers)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "numbers", given + defaults[len(given) :])
        _check(self)

    @classmethod
    def of(cls, value: object) -> Self:
        """Return an activation for itself, or for its text as `parse` reads it."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        raise ProblemError("activation", value, "an Activation, or its text")

    def __str__(self) -> str:
        """Spell it as `parse` reads it: ``leaky:0.1``, ``relu``."""
        if self.numbers == self.kind.defaults:
            return self.kind.value
        return f"{self.kind}:{','.join(map(repr, self.numbers))}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a kind and, behind a colon, its numbers with commas in between."""
        kind, colon, numbers = text.partition(":")
        try:
            given = tuple(map(float, numbers.split(","))) if colon else ()
        except ValueError:
            raise ProblemError("activation", text, "KIND or KIND:NUMBER[,NUMBER..]") from None
        return cls(kind, *given)

    def __call__(self, values: Array | float) -> Doubles:
        """Return the function of each value, in float64; NaN stays NaN."""
        x = np.asarray(values, np.float64)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return np.asarray(_FUNCTIONS[self.kind](x, *self.numbers), np.float64)

    def largest_slope(self, largest: float) -> float:
        """Return by how much differences grow at most, among values no larger than this."""
        slope = _SLOPES.get(self.kind)
        if slope is not None:
            return slope
        if self.kind is ActivationKind.POWER:
            return _slope_of_power(largest, *self.numbers)
        factors = [abs(number) for number in self.numbers]
        if self.kind is ActivationKind.TANH:
            return factors[0] * factors[1]
        is_slope_of_all = self.kind is ActivationKind.HARD_SIGMOID
        return factors[0] if is_slope_of_all else max(1.0, factors[0])

    @property
    def roundings(self) -> int:
        """Roundings of its own, as OpenCL allows its library's functions."""
        return _ROUNDINGS.get(self.kind, 32)


def _number(kind: ActivationKind, value: object) -> float:
    value = python_scalar(value)
    number = math.nan
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        number = float(value) + 0.0
    if not abs(number) <= _LARGEST:
        raise ProblemError("activation", value, f"finite float32 numbers for {kind}")
    return number


def _check(activation: Activation) -> None:
    kind, numbers = activation.kind, activation.numbers
    if kind is ActivationKind.CLIP and numbers[0] > numbers[1]:
        raise ProblemError("activation", str(activation), "clip from a number up to a larger one")
    if kind is ActivationKind.SOFTPLUS and numbers[0] <= 0:
        raise ProblemError("activation", str(activation), "softplus with a number above 0")


_DEFAULTS: Mapping[ActivationKind, tuple[float, ...]] = MappingProxyType(
    {
        ActivationKind.CLIP: (0.0, 6.0),
        ActivationKind.LEAKY: (0.01,),
        ActivationKind.ELU: (1.0,),
        ActivationKind.TANH: (1.0, 1.0),
        ActivationKind.HARD_SIGMOID: (1 / 6, 0.5),
        ActivationKind.SOFTPLUS: (1.0,),
        ActivationKind.POWER: (0.0, 1.0, 1.0),
    }
)


def _erfc(x: Doubles) -> Doubles:
    flat = np.fromiter(map(math.erfc, x.ravel().tolist()), np.float64, x.size)
    return flat.reshape(x.shape)


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


def _mish(x: Doubles) -> Doubles:
    e = np.exp(np.minimum(x, 20.0))
    return np.asarray(x * (e * (e + 2) / (e * (e + 2) + 2)))


def _power(x: Doubles, shift: float, scale: float, exponent: float) -> Doubles:
    base = shift + scale * x
    is_small = base <= _LEAST_BASE
    return np.where(is_small, 0.0, np.power(np.where(is_small, 1.0, base), exponent))


def _slope_of_power(largest: float, shift: float, scale: float, exponent: float) -> float:
    """Return the slope at the largest base, or at the least one, where it also jumps from 0."""
    base = _LEAST_BASE if exponent < 1 else max(abs(shift) + abs(scale) * largest, _LEAST_BASE)
    if not math.isfinite(base):
        return math.inf
    factor = max(abs(exponent), 1.0) if exponent < 1 else exponent
    return abs(scale) * factor * float(np.exp(min((exponent - 1) * math.log(base), 700.0)))


_FUNCTIONS: Mapping[ActivationKind, Function] = MappingProxyType(
    {
        ActivationKind.RELU: lambda x: np.maximum(x, 0.0),
        ActivationKind.CLIP: lambda x, low, high: np.clip(x, low, high),
        ActivationKind.LEAKY: lambda x, slope: np.where(x < 0, slope * x, x),
        ActivationKind.ELU: lambda x, scale: np.where(x > 0, x, scale * np.expm1(np.minimum(x, 0))),
        ActivationKind.SIGMOID: _sigmoid,
        ActivationKind.TANH: lambda x, inner, outer: outer * np.tanh(inner * x),
        ActivationKind.SILU: lambda x: x * _sigmoid(x),
        ActivationKind.HARD_SWISH: lambda x: x * np.clip(x / 6 + 0.5, 0.0, 1.0),
        ActivationKind.HARD_SIGMOID: lambda x, scale, shift: np.clip(scale * x + shift, 0.0, 1.0),
        ActivationKind.GELU_ERF: lambda x: 0.5 * x * _erfc(-math.sqrt(0.5) * x),
        ActivationKind.GELU_TANH: lambda x: (
            x * _sigmoid(math.sqrt(8 / math.pi) * x * (1 + 0.044715 * x * x))
        ),
        ActivationKind.MISH: _mish,
        ActivationKind.SOFTPLUS: lambda x, scale: np.logaddexp(0.0, scale * x) / scale,
        ActivationKind.ABS: np.abs,
        ActivationKind.POWER: _power,
    }
)
#: The largest slopes of those whose numbers do not change them, rounded up.
_SLOPES: Mapping[ActivationKind, float] = MappingProxyType(
    {
        **dict.fromkeys((ActivationKind.RELU, ActivationKind.CLIP, ActivationKind.ABS), 1.0),
        ActivationKind.SIGMOID: 0.25,
        ActivationKind.SILU: 1.1,
        ActivationKind.HARD_SWISH: 1.5,
        **dict.fromkeys((ActivationKind.GELU_ERF, ActivationKind.GELU_TANH), 1.13),
        ActivationKind.MISH: 1.09,
        ActivationKind.SOFTPLUS: 1.0,
    }
)
_ROUNDINGS: Mapping[ActivationKind, int] = MappingProxyType(
    {
        **dict.fromkeys((ActivationKind.RELU, ActivationKind.ABS), 0),
        **dict.fromkeys((ActivationKind.CLIP, ActivationKind.LEAKY), 2),
        **dict.fromkeys((ActivationKind.HARD_SWISH, ActivationKind.HARD_SIGMOID), 4),
    }
)
