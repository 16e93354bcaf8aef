"""`ResizeProblem`: x at other sizes, by the nearest element or by interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, number, shape_of, word


class Interpolation(StrEnum):
    """The way to fill in values between elements."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"

    @property
    def support(self) -> int:
        """How far the weight of an element reaches; 0: the nearest is taken."""
        return {"nearest": 0, "linear": 1, "cubic": 2}[self.value]


class Coordinates(StrEnum):
    """Where in x an element of y lies; ONNX's names."""

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


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """Where elements along an axis of y lie: ``(i + shift) * factor / divisor + offset``."""

    axis: int
    size: int
    shift: float
    factor: float
    divisor: float
    offset: float
    narrowing: float  # steps of the taps: below 1, so that more elements count

    def at(self, count: int) -> Array:
        """Return the coordinates in x of so many elements."""
        return (np.arange(count) + self.shift) * self.factor / self.divisor + self.offset


@dataclass(frozen=True, kw_only=True)
class ResizeProblem(Operator):
    """x at other sizes; interpolation is separable.

    Attributes:
        sizes: of y.
        scales: of each axis; None: quotients of the sizes.
        coordinates, rounding: where elements lie, and which is nearest.
        cubic: the coefficient of cubic interpolation.
        exclude_outside: elements outside of x do not count, instead of those at its border.
        antialias: where x shrinks, all elements count that an element of y stands for.
        region: begin and end along each axis, for ``tf_crop_and_resize``.
        outside: what that puts where it leaves x.
    """

    kind: ClassVar[str] = "resize"

    x: Shape
    sizes: Shape
    scales: tuple[float, ...] | None = None
    interpolation: Interpolation = Interpolation.NEAREST
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.PREFER_FLOOR
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    region: tuple[tuple[float, float], ...] = ()
    outside: float = 0.0

    def __post_init__(self) -> None:
        for name in ("x", "sizes"):
            self._set(name, shape_of(name, getattr(self, name)))
        words = {"interpolation": Interpolation, "coordinates": Coordinates, "rounding": Rounding}
        for name, kind in words.items():
            self._set(name, word(name, kind, getattr(self, name)))
        if len(self.sizes) != len(self.x) or 0 in self.x:
            raise ProblemError("sizes", self.sizes, f"a size for each axis of {self.x}")
        if self.scales is None:
            scales = (to / size for to, size in zip(self.sizes, self.x, strict=True))
        else:
            scales = (number("scales", scale) for scale in self.scales)
        self._set("scales", tuple(scales))
        assert self.scales is not None
        if len(self.scales) != len(self.x) or min(self.scales, default=1) <= 0:
            raise ProblemError("scales", self.scales, f"positive numbers for each axis of {self.x}")
        self._set("region", tuple(tuple(map(float, pair)) for pair in self.region))
        if self.coordinates is Coordinates.CROP and len(self.region) != len(self.x):
            raise ProblemError("region", self.region, f"begin and end of each axis of {self.x}")
        super().__post_init__()
        if not self.dtype.is_float and self.interpolation is not Interpolation.NEAREST:
            raise ProblemError("dtype", self.dtype, f"floating types for {self.interpolation}")

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return ("x", self.x, self.dtype), ("y", self.sizes, self.dtype)

    @property
    def axes(self) -> tuple[ResizedAxis, ...]:
        """The axes that change."""
        assert self.scales is not None
        return tuple(
            self._resized(axis)
            for axis, (size, to) in enumerate(zip(self.x, self.sizes, strict=True))
            if size != to or self.scales[axis] != 1 or not self._is_whole(axis)
        )

    def _is_whole(self, axis: int) -> bool:
        """Tell whether elements along an axis come from all of x."""
        return self.coordinates is not Coordinates.CROP or self.region[axis] == (0.0, 1.0)

    def _resized(self, axis: int) -> ResizedAxis:
        assert self.scales is not None
        size, count, scale = self.x[axis], self.sizes[axis], self.scales[axis]
        width = scale * size
        shift, factor, divisor, offset = 0.5, 1.0, scale, -0.5
        if self.coordinates is Coordinates.ASYMMETRIC:
            shift, offset = 0.0, 0.0
        elif self.coordinates is Coordinates.ALIGN_CORNERS:
            shift, factor, divisor, offset = 0.0, float(size - 1), width - 1, 0.0
            if width == 1:
                factor, divisor = 0.0, 1.0
        elif self.coordinates is Coordinates.CROP:
            begin, end = self.region[axis]
            shift, factor, divisor = 0.0, (end - begin) * (size - 1), width - 1
            offset = begin * (size - 1)
            if width == 1:
                factor, divisor, offset = 0.0, 1.0, (begin + end) * (size - 1) / 2
        elif self.coordinates is Coordinates.HALF_PIXEL_SYMMETRIC:
            offset = size / 2 * (1 - count / width) - 0.5
        elif self.coordinates is Coordinates.PYTORCH_HALF_PIXEL and count == 1:
            factor = 0.0
        narrowing = min(scale, 1.0) if self.antialias else 1.0
        return ResizedAxis(axis, size, shift, factor, divisor, offset, narrowing)

    def taps(self, resized: ResizedAxis) -> int:
        """Return how many elements along an axis an element of y is made of."""
        return max(2 * math.ceil(self.interpolation.support / resized.narrowing), 1)

    @property
    def flops(self) -> float:
        """Two for each element that counts."""
        return 2.0 * self.result.elements * math.prod(map(self.taps, self.axes))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Interpolate along one axis after the other."""
        x = inputs["x"]
        beyond = np.zeros(self.sizes, bool)
        for resized in self.axes:
            x = self._interpolated(x, resized, absolute=False)
            if self.coordinates is Coordinates.CROP:
                at = resized.at(self.sizes[resized.axis])
                beyond |= self._column((at < 0) | (at > resized.size - 1), resized)
        return {"y": np.where(beyond, x.dtype.type(self.outside), x)}

    def _column(self, values: Array, resized: ResizedAxis) -> Array:
        return values.reshape(-1, *(1,) * (len(self.x) - resized.axis - 1))

    def _interpolated(self, x: Array, resized: ResizedAxis, *, absolute: bool) -> Array:
        at = resized.at(self.sizes[resized.axis])
        last = resized.size - 1
        if self.interpolation is Interpolation.NEAREST:
            places = np.clip(_ROUND[self.rounding](at), 0, last).astype(int)
            return np.take(x, places, axis=resized.axis)
        reach = self.taps(resized) // 2
        taps = [np.floor(at) + offset for offset in range(1 - reach, reach + 1)]
        weights = [self._weight((tap - at) * resized.narrowing) for tap in taps]
        if self.exclude_outside:
            weights = [
                np.where((tap < 0) | (tap > last), 0.0, weight)
                for tap, weight in zip(taps, weights, strict=True)
            ]
        if self.exclude_outside or self.antialias:
            whole = sum(weights)
            weights = [weight / whole for weight in weights]
        result: Any = 0.0
        for tap, weight in zip(taps, weights, strict=True):
            column = self._column(np.abs(weight) if absolute else weight, resized)
            values = np.take(x, np.clip(tap, 0, last).astype(int), axis=resized.axis)
            result = result + np.where(column == 0, 0.0, column * values)
        return np.asarray(result)

    def _weight(self, distance: Array) -> Array:
        t = np.abs(distance)
        if self.interpolation is Interpolation.LINEAR:
            return np.asarray(np.maximum(1 - t, 0))
        a = self.cubic
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of weights and of sums come to."""
        if self.interpolation is Interpolation.NEAREST:
            return {"y": np.zeros(self.sizes)}
        sizes = np.abs(inputs["x"])
        taps = 1
        for resized in self.axes:
            sizes = self._interpolated(sizes, resized, absolute=True)
            taps *= self.taps(resized)
        largest = np.max(sizes, where=np.isfinite(sizes), initial=0.0)
        return {"y": (taps + 8) * self.dtype.arithmetic.unit_roundoff * (sizes + largest)}


_ROUND: dict[Rounding, Callable[[Array], Array]] = {
    Rounding.PREFER_FLOOR: lambda at: np.ceil(at - 0.5),
    Rounding.PREFER_CEIL: lambda at: np.floor(at + 0.5),
    Rounding.FLOOR: np.floor,
    Rounding.CEIL: np.ceil,
}
