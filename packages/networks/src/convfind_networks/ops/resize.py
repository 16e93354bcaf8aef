"""`Resize`: interpolation to another size, nearest, linear or cubic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


class Interpolation(StrEnum):
    """The way to fill in values between elements."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


class Coordinates(StrEnum):
    """Where in x an element of the result lies; ONNX's names."""

    HALF_PIXEL = "half_pixel"
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"
    CROP = "tf_crop_and_resize"


class Rounding(StrEnum):
    """The choice of the nearest element to a coordinate between two."""

    PREFER_FLOOR = "round_prefer_floor"
    PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


_ROUND: dict[Rounding, Callable[[Array], Array]] = {
    Rounding.PREFER_FLOOR: lambda at: np.ceil(at - 0.5),
    Rounding.PREFER_CEIL: lambda at: np.floor(at + 0.5),
    Rounding.FLOOR: np.floor,
    Rounding.CEIL: np.ceil,
}


@dataclass(frozen=True)
class Resize(Op):
    """x at another size. Reads x.

    Interpolation is separable, so each axis of the reference is a matrix product.
    """

    follows_layout: ClassVar[bool] = True

    sizes: tuple[int, ...]
    scales: tuple[float, ...]  # of each axis: not always the quotient of the sizes
    interpolation: Interpolation
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.PREFER_FLOOR
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    region: tuple[tuple[float, float], ...] = ()  # of each axis, for `Coordinates.CROP`
    outside: float = 0.0  # what `Coordinates.CROP` puts where it leaves x

    def infer(self, x: TensorType) -> TensorType:
        """Return the type with the new sizes."""
        if len(self.sizes) != x.rank or len(self.scales) != x.rank or 0 in x.shape:
            raise GraphError(f"{x} is not resized to {self.sizes}")
        if any(scale <= 0 for scale in self.scales):
            raise GraphError(f"scales {self.scales} are not all positive")
        return x.with_shape(self.sizes)

    def evaluate(self, x: Array) -> Array:
        """Multiply every axis that changes by its interpolation matrix."""
        dtype = x.dtype
        for axis, (size, wanted) in enumerate(zip(x.shape, self.sizes, strict=True)):
            if size == wanted and self.scales[axis] == 1 and self.coordinates != Coordinates.CROP:
                continue
            at = self._coordinates(axis, size)
            x = np.moveaxis(np.tensordot(self._matrix(axis, at, size), x, (1, axis)), 0, axis)
            if self.coordinates is Coordinates.CROP:
                left = ((at < 0) | (at > size - 1)).reshape(-1, *(1,) * (x.ndim - axis - 1))
                x = np.where(left, self.outside, x)
        return x if dtype == np.float64 else np.rint(x).astype(dtype)

    def _coordinates(self, axis: int, size: int) -> Array:
        """Return where in x each element along an axis of the result lies."""
        count, scale = self.sizes[axis], self.scales[axis]
        at, width = np.arange(count, dtype=np.float64), scale * size
        match self.coordinates:
            case Coordinates.ASYMMETRIC:
                return at / scale
            case Coordinates.ALIGN_CORNERS:
                return at * 0 if width == 1 else at * (size - 1) / (width - 1)
            case Coordinates.CROP:
                begin, end = self.region[axis]
                if width == 1:
                    return at * 0 + (begin + end) * (size - 1) / 2
                return begin * (size - 1) + at * (end - begin) * (size - 1) / (width - 1)
            case Coordinates.PYTORCH_HALF_PIXEL if count == 1:
                return at * 0 - 0.5
            case Coordinates.HALF_PIXEL_SYMMETRIC:
                return size / 2 * (1 - count / width) + (at + 0.5) / scale - 0.5
            case _:
                return (at + 0.5) / scale - 0.5

    def _matrix(self, axis: int, at: Array, size: int) -> Array:
        """Return what each element of the result takes of each element along an axis."""
        matrix = np.zeros((len(at), size))
        rows = np.arange(len(at))
        if self.interpolation is Interpolation.NEAREST:
            matrix[rows, np.clip(_ROUND[self.rounding](at), 0, size - 1).astype(int)] = 1
            return matrix
        narrowing = min(self.scales[axis], 1.0) if self.antialias else 1.0
        support = 1 if self.interpolation is Interpolation.LINEAR else 2
        reach = int(np.ceil(support / narrowing))
        for offset in range(1 - reach, reach + 1):
            tap = np.floor(at) + offset
            weight = self._weight((tap - at) * narrowing)
            if self.exclude_outside:
                weight = np.where((tap < 0) | (tap >= size), 0.0, weight)
            np.add.at(matrix, (rows, np.clip(tap, 0, size - 1).astype(int)), weight)
        if self.exclude_outside or self.antialias:
            matrix /= matrix.sum(axis=1, keepdims=True)
        return matrix

    def _weight(self, distance: Array) -> Array:
        t = np.abs(distance)
        if self.interpolation is Interpolation.LINEAR:
            return np.asarray(np.maximum(1 - t, 0))
        a = self.cubic
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        weight: Array = np.where(t <= 1, near, np.where(t < 2, far, 0.0))
        return weight
