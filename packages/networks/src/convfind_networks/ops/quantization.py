"""Real numbers as small whole ones, and back: `Quantize` and `Dequantize`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op, widened
from convfind_networks.tensor_type import Array, TensorType, is_float


def _along(parameter: Array, x: Array, axis: int) -> Array:
    """Return scales or zero points in a shape that goes with x.

    One number holds for all; a vector has one for each slice along the axis; with as many
    dimensions as x, one holds for each block along the axis.
    """
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim == 1:
        return parameter.reshape(-1, *(1,) * (x.ndim - axis - 1))
    return np.repeat(parameter, -(-x.shape[axis] // parameter.shape[axis]), axis)[
        tuple(map(slice, x.shape))
    ]


def _check(x: TensorType, axis: int, scale: TensorType, zero: tuple[TensorType, ...]) -> None:
    if zero and zero[0].shape != scale.shape and not zero[0].elements == scale.elements == 1:
        raise GraphError(f"zero points {zero[0]} do not go with scales {scale}")
    if scale.elements == 1:
        return
    if not 0 <= axis < x.rank:
        raise GraphError(f"axis {axis} is none of {x}")
    if scale.rank == 1:
        fits = scale.shape[0] == x.shape[axis]
    else:
        slices = [size for at, size in enumerate(x.shape) if at != axis]
        blocks = [size for at, size in enumerate(scale.shape) if at != axis]
        fits = scale.rank == x.rank and slices == blocks and scale.shape[axis] > 0
    if not fits:
        raise GraphError(f"scales {scale} do not go with {x} along axis {axis}")


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the least and the largest number of a type, of NumPy's or of ml_dtypes."""
    limits: Any = ml_dtypes.finfo if is_float(dtype) else ml_dtypes.iinfo
    return float(limits(dtype).min), float(limits(dtype).max)


@dataclass(frozen=True)
class Quantize(Op):
    """``round(x / scale) + zero point``, saturated. Reads x, scales, and zero points or nothing.

    Halves are rounded to even. Scales are one number, one for each slice along the axis, or one
    for each block along it.
    """

    follows_layout: ClassVar[bool] = True

    dtype: np.dtype[Any]
    axis: int = 1

    def infer(self, x: TensorType, scale: TensorType, *zero: TensorType) -> TensorType:
        """Return the shape of x with the small type."""
        _check(x, self.axis, scale, zero)
        if zero and zero[0].dtype != self.dtype:
            raise GraphError(f"zero points are {self.dtype.name}, not {zero[0]}")
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array, scale: Array, zero: Array | None = None) -> Array:
        """Scale, round, shift, saturate."""
        scaled = x / _along(scale, x, self.axis)
        if is_float(self.dtype):
            return widened(np.clip(scaled, *_range(self.dtype)).astype(self.dtype))
        whole = np.rint(scaled)
        if zero is not None:
            whole = whole + _along(zero, x, self.axis).astype(np.float64)
        return np.clip(whole, *_range(self.dtype))


@dataclass(frozen=True)
class Dequantize(Op):
    """``(x - zero point) * scale``. Reads x, scales, and zero points or nothing."""

    follows_layout: ClassVar[bool] = True

    dtype: np.dtype[Any]
    axis: int = 1

    def infer(self, x: TensorType, scale: TensorType, *zero: TensorType) -> TensorType:
        """Return the shape of x with the floating type."""
        _check(x, self.axis, scale, zero)
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array, scale: Array, zero: Array | None = None) -> Array:
        """Shift and scale."""
        shifted = x.astype(np.float64)
        if zero is not None:
            shifted = shifted - _along(zero, x, self.axis).astype(np.float64)
        return shifted * _along(scale, x, self.axis).astype(np.float64)
