"""`Activation`: a function of one number, in an epilogue or by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


class ActivationKind(StrEnum):
    """The activations, with the numbers that each takes."""

    RELU = "relu"
    CLIP = "clip"  # low, high
    LEAKY_RELU = "leaky-relu"  # slope
    THRESHOLDED_RELU = "thresholded-relu"  # threshold
    ELU = "elu"  # alpha
    SELU = "selu"  # alpha, gamma
    CELU = "celu"  # alpha
    SIGMOID = "sigmoid"
    HARD_SIGMOID = "hard-sigmoid"  # slope, offset
    TANH = "tanh"
    SILU = "silu"  # beta
    HARD_SWISH = "hard-swish"
    GELU = "gelu"
    GELU_TANH = "gelu-tanh"
    MISH = "mish"
    SOFTPLUS = "softplus"
    SOFTSIGN = "softsign"
    ABS = "abs"
    POWER = "power"  # offset, scale, exponent


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of one number: its kind, and the numbers that are part of it."""

    kind: ActivationKind
    numbers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        usual = _FORMULAS[self.kind][1]
        given = tuple(float(number) for number in self.numbers) or usual
        if len(given) != len(usual):
            raise GraphError(f"{self.kind} takes {len(usual)} numbers, not {len(given)}")
        if self.kind is ActivationKind.CLIP and given[0] > given[1]:
            given = (given[1], given[1])  # the upper bound is the last to be applied
        object.__setattr__(self, "numbers", given)

    def __call__(self, x: Array) -> Array:
        """Apply it to every element."""
        return _FORMULAS[self.kind][0](x, *self.numbers)

    def __str__(self) -> str:
        if self.numbers == _FORMULAS[self.kind][1]:
            return str(self.kind)
        return f"{self.kind}({', '.join(f'{number:g}' for number in self.numbers)})"


@dataclass(frozen=True)
class Activate(Op):
    """An activation, element by element. Reads x."""

    in_place: ClassVar[tuple[int, ...]] = (0,)
    follows_layout: ClassVar[bool] = True

    activation: Activation

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x."""
        whole = (ActivationKind.RELU, ActivationKind.CLIP, ActivationKind.ABS)
        if not x.is_float and self.activation.kind not in whole:
            raise GraphError(f"{self.activation} takes floating types, not {x.dtype.name}")
        return x

    def evaluate(self, x: Array) -> Array:
        """Apply the activation."""
        return self.activation(x)

    def __str__(self) -> str:
        return f"Activate[{self.activation}]"


def erf(x: Array) -> Array:
    """Compute the error function; NumPy has none."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def clip(x: Array, low: float, high: float) -> Array:
    """Bound elements; NaN stays NaN, and whole numbers stay whole numbers."""
    if math.isfinite(low):
        x = np.maximum(x, x.dtype.type(low))
    return np.minimum(x, x.dtype.type(high)) if math.isfinite(high) else x


def _power(x: Array, offset: float, scale: float, exponent: float) -> Array:
    base = offset + scale * x
    return np.asarray(base**exponent)


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _negative(x: Array, of_negative: Array) -> Array:
    """Return x where it is positive, and another function of it elsewhere."""
    return np.where(x > 0, x, of_negative)


#: The formula of each kind, and its usual numbers.
_FORMULAS: dict[ActivationKind, tuple[Callable[..., Array], tuple[float, ...]]] = {
    ActivationKind.RELU: (lambda x: np.maximum(x, x.dtype.type(0)), ()),
    ActivationKind.CLIP: (clip, (-math.inf, math.inf)),
    ActivationKind.LEAKY_RELU: (lambda x, a: np.where(x >= 0, x, a * x), (0.01,)),
    ActivationKind.THRESHOLDED_RELU: (lambda x, a: np.where(x > a, x, 0.0), (1.0,)),
    ActivationKind.ELU: (lambda x, a: _negative(x, a * np.expm1(np.minimum(x, 0))), (1.0,)),
    ActivationKind.SELU: (
        lambda x, a, g: g * _negative(x, a * np.expm1(np.minimum(x, 0))),
        (1.67326319217681884765625, 1.05070102214813232421875),
    ),
    ActivationKind.CELU: (lambda x, a: _negative(x, a * np.expm1(np.minimum(x, 0) / a)), (1.0,)),
    ActivationKind.SIGMOID: (sigmoid, ()),
    ActivationKind.HARD_SIGMOID: (lambda x, a, b: np.clip(a * x + b, 0, 1), (1 / 6, 0.5)),
    ActivationKind.TANH: (np.tanh, ()),
    ActivationKind.SILU: (lambda x, b: x * sigmoid(b * x), (1.0,)),
    ActivationKind.HARD_SWISH: (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), ()),
    ActivationKind.GELU: (lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), ()),
    ActivationKind.GELU_TANH: (
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        (),
    ),
    ActivationKind.MISH: (lambda x: x * np.tanh(_softplus(x)), ()),
    ActivationKind.SOFTPLUS: (_softplus, ()),
    ActivationKind.SOFTSIGN: (lambda x: x / (1 + np.abs(x)), ()),
    ActivationKind.ABS: (np.abs, ()),
    ActivationKind.POWER: (_power, (0.0, 1.0, 1.0)),
}
