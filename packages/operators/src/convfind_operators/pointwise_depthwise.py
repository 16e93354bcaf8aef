"""`PointwiseDepthwiseProblem`: a 1x1 convolution, and a depthwise one of its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind.problem.activation import Activation
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, shape_of
from convfind_operators.window import Window, per_axis


@dataclass(frozen=True, kw_only=True)
class PointwiseDepthwiseProblem(Operator):
    """``y = outer(depthwise(inner(pointwise(x) + bias)) + depthwise_bias)`` of images.

    The 1x1 convolution's result, with ``filters`` channels, need not be in memory. Operands are x
    (N, C, H, W), w (filters, C, 1, 1), bias (filters), depthwise_w (filters, 1, size),
    depthwise_bias (filters) and y (N, filters, H', W').

    Attributes:
        size, stride, padding, padding_end: the depthwise filter; a number, or one for each axis.
            Without ``padding_end`` it is as ``padding``.
        inner, outer: the activations; None: none.
    """

    kind: ClassVar[str] = "pointwise-depthwise"
    #: It pays where it is faster than the two convolutions.
    is_measured: ClassVar[bool] = True

    x: Shape
    filters: int
    size: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    padding_end: tuple[int, ...] | None = None
    inner: Activation | None = None
    outer: Activation | None = None

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        if len(self.x) != 4:
            raise ProblemError("x", self.x, "batch, channels, height and width")
        if self.filters < 1:
            raise ProblemError("filters", self.filters, "a number from 1 on")
        if self.padding_end is None:
            self._set("padding_end", self.padding)
        for name, least in (("size", 1), ("stride", 1), ("padding", 0), ("padding_end", 0)):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) == 1:
                value = value[0]
            self._set(name, per_axis(name, value, 2, least))
        for name in ("inner", "outer"):
            given = getattr(self, name)
            self._set(name, None if given is None else Activation.of(given))
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "floating types")

    @property
    def window(self) -> Window:
        """How the depthwise filter steps over the 1x1 convolution's result."""
        assert self.padding_end is not None
        return Window(self.size, self.stride, self.padding, self.padding_end, (1, 1))

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        images, channels, *spatial = self.x
        shapes = {
            "x": self.x,
            "w": (self.filters, channels, 1, 1),
            "bias": (self.filters,),
            "depthwise_w": (self.filters, 1, *self.size),
            "depthwise_bias": (self.filters,),
            "y": (images, self.filters, *self.window.result(tuple(spatial))),
        }
        return tuple((name, shape, self.dtype) for name, shape in shapes.items())

    @property
    def flops(self) -> float:
        """Two for each product of both convolutions."""
        images, channels, height, width = self.x
        places = images * self.filters * height * width
        return 2.0 * (places * channels + self.result.elements * self.window.taps)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compute one convolution after the other."""
        sums = _pointwise(inputs["x"], inputs["w"]) + _by_channel(inputs["bias"])
        sums = self._depthwise(_activated(self.inner, sums), inputs["depthwise_w"])
        return {"y": _activated(self.outer, sums + _by_channel(inputs["depthwise_bias"]))}

    def _depthwise(self, data: Array, w: Array) -> Array:
        taps = w.reshape(self.filters, -1)
        met = self.window.met(data, 0)
        return np.asarray(sum(tap * _by_channel(taps[:, at]) for at, tap in enumerate(met)))

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of both sums come to, through the activations."""
        unit = self.dtype.arithmetic.unit_roundoff
        size = {name: np.abs(array) for name, array in inputs.items()}
        sums = _pointwise(size["x"], size["w"]) + _by_channel(size["bias"])
        error, kept = _through(self.inner, (self.x[1] + 2) * unit * sums, sums, unit)
        sums = self._depthwise(kept, size["depthwise_w"]) + _by_channel(size["depthwise_bias"])
        error = self._depthwise(error, size["depthwise_w"])
        error += (self.window.taps + 2) * unit * sums
        return {"y": _through(self.outer, error, sums, unit)[0]}


def _by_channel(vector: Array) -> Array:
    return vector.reshape(1, -1, 1, 1)


def _pointwise(x: Array, w: Array) -> Array:
    return np.asarray(np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0]))


def _activated(activation: Activation | None, sums: Array) -> Array:
    return sums if activation is None else activation(sums)


def _through(
    activation: Activation | None, error: Array, size: Array, unit: float
) -> tuple[Array, Array]:
    """Return error and size of an activation's results, from bounds on those of its argument."""
    if activation is None:
        return error, size
    largest = float(np.max(size, initial=0.0, where=np.isfinite(size)))
    slope = activation.largest_slope(largest)
    bound = np.maximum(np.abs(activation(size)), np.abs(activation(-size))) + slope * size
    return slope * error + activation.roundings * unit * (bound + 1), bound
