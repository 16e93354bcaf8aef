"""The slopes of activations, for their gradients: of the argument, or of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from convfind.problem.activation import Activation, ActivationKind, Array, Doubles

Function = Callable[..., Any]  # of doubles and the kind's numbers

_ROOT: Final = float(np.sqrt(8 / np.pi))


def slope_of_argument(activation: Activation, values: Array) -> Doubles:
    """Return the slope at each argument, in float64; at a kink that of PyTorch."""
    return _slope(_OF_ARGUMENT, activation, values)


def slope_of_result(activation: Activation, values: Array) -> Doubles:
    """Return the slope where the activation gave each of these results.

    See `tells_slope` for the activations whose results tell.
    """
    return _slope(_OF_RESULT, activation, values)


def tells_slope(activation: Activation) -> bool:
    """Return whether results of an activation tell its slope, so that no argument is kept."""
    numbers = activation.numbers
    if activation.kind in (ActivationKind.LEAKY, ActivationKind.ELU):
        return numbers[0] >= 0
    if activation.kind is ActivationKind.TANH:
        return numbers[1] != 0
    return activation.kind in _OF_RESULT


def _slope(
    functions: Mapping[ActivationKind, Function], activation: Activation, values: Array
) -> Doubles:
    x = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(functions[activation.kind](x, *activation.numbers), np.float64)


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


def _inside(x: Doubles, low: float, high: float, slope: float) -> Doubles:
    return np.where((x <= low) | (x >= high), 0.0, slope)


def _silu(x: Doubles) -> Doubles:
    s = _sigmoid(x)
    return s * (1 + np.clip(x, -100, 100) * (1 - s))


def _gelu_erf(x: Doubles) -> Doubles:
    near = np.clip(x, -20, 20)
    # The activation is the argument times the distribution's share below it.
    share = np.where(near == 0, 0.5, Activation("gelu-erf")(near) / np.where(near == 0, 1, near))
    return np.asarray(share + near * np.exp(-0.5 * near * near) / np.sqrt(2 * np.pi))


def _gelu_tanh(x: Doubles) -> Doubles:
    near = np.clip(x, -20, 20)
    s = _sigmoid(_ROOT * near * (1 + 0.044715 * near**2))
    return s + near * s * (1 - s) * _ROOT * (1 + 3 * 0.044715 * near**2)


def _mish(x: Doubles) -> Doubles:
    near = np.clip(x, -80, 20)
    e = np.exp(near)
    d = e * (e + 2) + 2
    return np.asarray(e * (e + 2) / d + near * 4 * e * (e + 1) / (d * d))


def _power(x: Doubles, shift: float, scale: float, exponent: float) -> Doubles:
    base = shift + scale * x
    is_small = base <= 1e-6
    return np.where(
        is_small, 0.0, scale * exponent * np.power(np.where(is_small, 1.0, base), exponent - 1)
    )


_OF_BOTH: Mapping[ActivationKind, Function] = {
    ActivationKind.RELU: lambda x: np.where(x <= 0, 0.0, 1.0),
    ActivationKind.CLIP: lambda x, low, high: _inside(x, low, high, 1.0),
    ActivationKind.LEAKY: lambda x, slope: np.where(x <= 0, slope, 1.0),
}
_OF_ARGUMENT: Mapping[ActivationKind, Function] = MappingProxyType(
    {
        **_OF_BOTH,
        ActivationKind.ELU: lambda x, a: np.where(x <= 0, a * np.exp(np.minimum(x, 0)), 1.0),
        ActivationKind.SIGMOID: lambda x: _sigmoid(x) * (1 - _sigmoid(x)),
        ActivationKind.TANH: lambda x, a, b: a * b * (1 - np.tanh(a * x) ** 2),
        ActivationKind.SILU: _silu,
        ActivationKind.HARD_SWISH: lambda x: np.select(
            [x <= -3, x >= 3], [np.zeros_like(x), np.ones_like(x)], x / 3 + 0.5
        ),
        ActivationKind.HARD_SIGMOID: lambda x, a, b: _inside(a * x + b, 0.0, 1.0, a),
        ActivationKind.GELU_ERF: _gelu_erf,
        ActivationKind.GELU_TANH: _gelu_tanh,
        ActivationKind.MISH: _mish,
        ActivationKind.SOFTPLUS: lambda x, a: _sigmoid(a * x),
        ActivationKind.ABS: np.sign,
        ActivationKind.POWER: _power,
    }
)
_OF_RESULT: Mapping[ActivationKind, Function] = MappingProxyType(
    {
        **_OF_BOTH,
        ActivationKind.ELU: lambda y, a: np.where(y <= 0, y + a, 1.0),
        ActivationKind.SIGMOID: lambda y: y * (1 - y),
        ActivationKind.TANH: lambda y, a, b: a * (b - y * (y / b)),
        ActivationKind.HARD_SIGMOID: lambda y, a, b: _inside(y, 0.0, 1.0, a),
        ActivationKind.SOFTPLUS: lambda y, a: -np.expm1(-a * y),
    }
)
