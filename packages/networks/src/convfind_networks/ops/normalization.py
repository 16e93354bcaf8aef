"""Normalisation at inference: batch, instance, group, layer, RMS, local response; softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.activation import Activation
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


def _per_channel(array: Array, like: Array) -> Array:
    return array.reshape(1, -1, *(1,) * (like.ndim - 2))


def _check_channels(x: TensorType, *vectors: TensorType) -> None:
    if x.rank < 2:
        raise GraphError(f"normalisation takes batch and channels, not {x}")
    for vector in vectors:
        if vector.shape != x.shape[1:2]:
            raise GraphError(f"one number a channel of {x}, not {vector}")


def _normalized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axis=axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + epsilon))


@dataclass(frozen=True)
class BatchNorm(Op):
    """Normalisation with known statistics, then an activation.

    Reads x, scale, bias, and mean and variance or neither: then it only scales and shifts.
    """

    in_place: ClassVar[tuple[int, ...]] = (0,)
    follows_layout: ClassVar[bool] = True

    epsilon: float = 1e-5
    activation: Activation | None = None

    def infer(self, x: TensorType, *parameters: TensorType) -> TensorType:
        """Return the type of x."""
        if len(parameters) not in {2, 4}:
            raise GraphError(f"a batch norm has two or four parameters, not {len(parameters)}")
        _check_channels(x, *parameters)
        return x

    def evaluate(self, x: Array, *parameters: Array) -> Array:
        """Scale and shift every channel."""
        scale, shift = self.scale_and_shift(*parameters)
        result = x * _per_channel(scale, x) + _per_channel(shift, x)
        return result if self.activation is None else self.activation(result)

    def scale_and_shift(
        self, scale: Array, bias: Array, mean: Array | None = None, variance: Array | None = None
    ) -> tuple[Array, Array]:
        """Return what every channel is multiplied by, and what is then added."""
        if mean is None or variance is None:
            return scale, bias
        factor = scale / np.sqrt(variance + self.epsilon)
        return factor, bias - mean * factor


@dataclass(frozen=True)
class GroupNorm(Op):
    """Normalisation over groups of channels of one image, then an activation.

    Reads x, scale and bias.

    With as many groups as channels it is instance normalisation.
    """

    follows_layout: ClassVar[bool] = True

    groups: int
    epsilon: float = 1e-5
    activation: Activation | None = None

    def infer(self, x: TensorType, scale: TensorType, bias: TensorType) -> TensorType:
        """Return the type of x."""
        _check_channels(x, scale, bias)
        if self.groups < 1 or x.shape[1] % self.groups:
            raise GraphError(f"{self.groups} groups do not divide the channels of {x}")
        return x

    def evaluate(self, x: Array, scale: Array, bias: Array) -> Array:
        """Normalise each group, and apply the activation."""
        split = x.reshape(x.shape[0], self.groups, -1)
        normalized = _normalized(split, (2,), self.epsilon).reshape(x.shape)
        result = normalized * _per_channel(scale, x) + _per_channel(bias, x)
        return result if self.activation is None else self.activation(result)


@dataclass(frozen=True)
class LayerNorm(Op):
    """Normalisation over the dimensions from an axis on. Reads x, scale, and bias or nothing."""

    axis: int
    epsilon: float = 1e-5

    def infer(self, x: TensorType, *parameters: TensorType) -> TensorType:
        """Return the type of x."""
        _check_trailing(x, self.axis, parameters)
        return x

    def evaluate(self, x: Array, scale: Array, bias: Array | None = None) -> Array:
        """Normalise, scale and shift."""
        result = _normalized(x, tuple(range(self.axis, x.ndim)), self.epsilon) * scale
        return np.asarray(result if bias is None else result + bias)


@dataclass(frozen=True)
class RMSNorm(Op):
    """Division by the root mean square of the dimensions from an axis on. Reads x and scale."""

    axis: int
    epsilon: float = 1e-5

    def infer(self, x: TensorType, scale: TensorType) -> TensorType:
        """Return the type of x."""
        _check_trailing(x, self.axis, (scale,))
        return x

    def evaluate(self, x: Array, scale: Array) -> Array:
        """Divide and scale."""
        axes = tuple(range(self.axis, x.ndim))
        return np.asarray(x / np.sqrt((x**2).mean(axis=axes, keepdims=True) + self.epsilon) * scale)


def _check_trailing(x: TensorType, axis: int, parameters: tuple[TensorType, ...]) -> None:
    if not 0 <= axis < x.rank:
        raise GraphError(f"axis {axis} is none of {x}")
    for parameter in parameters:
        try:
            fits = np.broadcast_shapes(parameter.shape, x.shape) == x.shape
        except ValueError:
            fits = False
        if not fits:
            raise GraphError(f"scale or bias {parameter} does not go with {x}")


@dataclass(frozen=True)
class LocalResponseNorm(Op):
    """Division by the power of a sum of squares over neighbouring channels. Reads x."""

    follows_layout: ClassVar[bool] = True

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x."""
        _check_channels(x)
        if self.size < 1:
            raise GraphError(f"{self.size} neighbouring channels are not possible")
        return x

    def evaluate(self, x: Array) -> Array:
        """Sum the squares of the channels around each channel."""
        before, after = (self.size - 1) // 2, math.ceil((self.size - 1) / 2)
        padded = np.pad(x**2, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))
        sums = sum(padded[:, at : at + x.shape[1]] for at in range(self.size))
        return np.asarray(x / (self.bias + self.alpha / self.size * sums) ** self.beta)


@dataclass(frozen=True)
class Softmax(Op):
    """Exponentials along an axis, divided by their sum, or the logarithm of that. Reads x."""

    axis: int
    log: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x."""
        if not 0 <= self.axis < x.rank:
            raise GraphError(f"axis {self.axis} is none of {x}")
        return x

    def evaluate(self, x: Array) -> Array:
        """Compute it relative to the largest element, so that nothing overflows."""
        below = x - x.max(axis=self.axis, keepdims=True, initial=-np.inf)
        sums = np.exp(below).sum(axis=self.axis, keepdims=True)
        return np.asarray(below - np.log(sums) if self.log else np.exp(below) / sums)
