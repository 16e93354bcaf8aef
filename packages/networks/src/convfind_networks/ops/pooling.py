"""Pooling: `MaxPool`, `AveragePool`, `GlobalPool`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.geometry import Window
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType, is_float


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the least element of a type."""
    return -math.inf if is_float(dtype) else np.iinfo(dtype).min


def _pooled(window: Window, x: TensorType) -> TensorType:
    if x.rank < 3:
        raise GraphError(f"pooling takes batch, channels and spatial dimensions, not {x}")
    return x.with_shape((*x.shape[:2], *window.result(x.shape[2:])))


@dataclass(frozen=True)
class MaxPool(Op):
    """The largest element of each window; padding never wins. Reads x (N, C, spatial).

    With ``indices`` a second result, int64, says where in the flattened x each one is.
    """

    follows_layout: ClassVar[bool] = True

    window: Window
    indices: bool = False

    def infer(self, x: TensorType) -> TensorType | tuple[TensorType, ...]:
        """Return the type of the result, and of the indices."""
        result = _pooled(self.window, x)
        return (result, result.with_dtype(np.int64)) if self.indices else result

    def evaluate(self, x: Array) -> Array | tuple[Array, ...]:
        """Compare the taps of the window, one after the other."""
        taps = self.window.met(x, lowest(x.dtype))
        if not self.indices:
            best = next(taps)
            for tap in taps:
                best = np.maximum(best, tap)
            return best
        places = self.window.met(np.arange(x.size).reshape(x.shape), -1)
        best, place = next(taps), next(places)
        for tap, at in zip(taps, places, strict=True):
            better = (tap > best) | (place < 0)
            best, place = np.where(better, tap, best), np.where(better, at, place)
        return best, place


@dataclass(frozen=True)
class AveragePool(Op):
    """The mean of each window. Reads x (N, C, spatial).

    The divisor is the number of elements that a window meets: of x, or of x and its padding; or a
    given number.
    """

    follows_layout: ClassVar[bool] = True

    window: Window
    count_include_pad: bool = False
    divisor: int | None = None

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of the result."""
        return _pooled(self.window, x)

    def evaluate(self, x: Array) -> Array:
        """Sum the taps of the window and divide."""
        sums = sum(self.window.met(x, 0))
        if self.divisor is not None:
            return np.asarray(sums / self.divisor)
        ones = np.ones((1, 1, *x.shape[2:]))
        counts = sum(self.window.met(ones, 1 if self.count_include_pad else 0, border=0))
        return np.asarray(sums / counts)


class PoolKind(StrEnum):
    """The function of a pooling's window."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True)
class GlobalPool(Op):
    """The largest or mean element of each channel. Reads x (N, C, spatial)."""

    follows_layout: ClassVar[bool] = True

    pool: PoolKind

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of the result: (N, C, 1, ...)."""
        if x.rank < 3:
            raise GraphError(f"pooling takes batch, channels and spatial dimensions, not {x}")
        return x.with_shape((*x.shape[:2], *(1,) * (x.rank - 2)))

    def evaluate(self, x: Array) -> Array:
        """Reduce the spatial dimensions."""
        axes = tuple(range(2, x.ndim))
        reduce = np.max if self.pool is PoolKind.MAX else np.mean
        return np.asarray(reduce(x, axis=axes, keepdims=True))

    def __str__(self) -> str:
        return f"GlobalPool[{self.pool}]"
