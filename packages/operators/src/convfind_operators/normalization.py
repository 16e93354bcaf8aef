"""Normalisation of x by itself: `LayerNormProblem`, `RMSNormProblem`, `GroupNormProblem`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind.problem.activation import Activation
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import broadcast
from convfind_operators.lines import Lines, LineWalk
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import shape_of
from convfind_operators.walk import View, Walk

Tensors = tuple[tuple[str, Shape, ElementType], ...]


@dataclass(frozen=True, kw_only=True)
class Norm(Lines):
    """``y = (x - mean) / sqrt(variance + epsilon) * scale + bias`` for each line of x."""

    x: Shape
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "floating types")

    @property
    def operation(self) -> str:
        """A norm with mean and variance."""
        return "NORM"

    @property
    def epsilon_of_lines(self) -> float:
        """The epsilon."""
        return self.epsilon

    @property
    def flops(self) -> float:
        """Eight for each element."""
        return 8.0 * self.result.elements

    @abstractmethod
    def _split(self, x: Array) -> tuple[Array, tuple[int, ...]]:
        """Return x with the axes along which lines extend, and those axes."""

    @abstractmethod
    def _spread(self, parameter: Array) -> Array:
        """Return scale or bias in a shape that broadcasts against x."""

    def _normalized(self, x: Array) -> tuple[Array, Array, Array]:
        """Return lines less their mean and divided, and by what, and the means, all as x is."""
        lines, axes = self._split(x)
        mean = np.zeros_like(lines)
        if self.operation == "NORM":
            mean = mean + lines.mean(axis=axes, keepdims=True)
        square = ((lines - mean) ** 2).mean(axis=axes, keepdims=True)
        divisor = np.sqrt(square + self.epsilon) + np.zeros_like(lines)
        shape = x.shape
        whole = (lines - mean) / divisor
        return whole.reshape(shape), divisor.reshape(shape), mean.reshape(shape)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Normalise, scale and shift."""
        result = self._normalized(inputs["x"])[0]
        if "scale" in inputs:
            result = result * self._spread(inputs["scale"])
        if "bias" in inputs:
            result = result + self._spread(inputs["bias"])
        return {"y": result}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the roundings of mean, variance and result come to."""
        normalized, divisor, mean = self._normalized(inputs["x"])
        lines, axes = self._split(inputs["x"])
        count = math.prod(lines.shape[axis] for axis in axes)
        share = (5 * math.sqrt(count) + 24) * self.dtype.arithmetic.unit_roundoff
        sizes = np.abs(lines).mean(axis=axes, keepdims=True) + np.zeros_like(lines)
        terms = (np.abs(inputs["x"] - mean) + sizes.reshape(mean.shape)) / divisor
        terms = terms + np.abs(normalized)
        if "scale" in inputs:
            terms = terms * np.abs(self._spread(inputs["scale"]))
        return {"y": share * (terms + np.abs(results["y"]))}


@dataclass(frozen=True, kw_only=True)
class LayerNormProblem(Norm):
    """Normalisation over the axes from one on.

    Attributes:
        axis: the first of them; below zero it counts from the last.
        scale, bias: shapes that broadcast against x; None: there is none. No bias without scale.
    """

    kind: ClassVar[str] = "layer-norm"

    axis: int = -1
    scale: Shape | None = None
    bias: Shape | None = None

    def __post_init__(self) -> None:
        axis = self.axis + len(self.x) if self.axis < 0 else self.axis
        if not 0 <= axis < len(self.x):
            raise ProblemError("axis", self.axis, f"an axis of {self.x}")
        self._set("axis", axis)
        for name in ("scale", "bias"):
            shape = getattr(self, name)
            if shape is not None:
                self._set(name, shape_of(name, shape))
                if broadcast(tuple(self.x), shape) != tuple(self.x):
                    raise ProblemError(name, shape, f"a shape that repeats to {self.x}")
        if self.bias is not None and self.scale is None:
            raise ProblemError("bias", self.bias, "None, without a scale")
        super().__post_init__()

    def _tensors(self) -> Tensors:
        more: list[tuple[str, Shape, ElementType]] = []
        if self.scale is not None:
            more.append(("scale", self.scale, self.dtype))
        if self.bias is not None:
            more.append(("bias", self.bias, self.dtype))
        return ("x", self.x, self.dtype), *more, ("y", self.x, self.dtype)

    @property
    def walk(self) -> LineWalk:
        """Lines along the axes from one on."""
        views = tuple(View.broadcast(operand, self.x) for operand in self.operands)
        return LineWalk.of(Walk(self.x, views), range(self.axis, len(self.x)))

    def _split(self, x: Array) -> tuple[Array, tuple[int, ...]]:
        return x, tuple(range(self.axis, x.ndim))

    def _spread(self, parameter: Array) -> Array:
        return parameter


@dataclass(frozen=True, kw_only=True)
class RMSNormProblem(LayerNormProblem):
    """Division by the root mean square of the axes from one on: no mean is subtracted."""

    kind: ClassVar[str] = "rms-norm"

    @property
    def operation(self) -> str:
        """A norm without mean."""
        return "RMS"


@dataclass(frozen=True, kw_only=True)
class GroupNormProblem(Norm):
    """Normalisation over groups of channels of one image; ``scale`` and ``bias`` are a channel's.

    With as many groups as channels it is instance normalisation.

    Attributes:
        groups: into which the channels, axis 1, are divided.
        activation: behind the norm; None: none.
    """

    kind: ClassVar[str] = "group-norm"

    groups: int
    activation: Activation | None = None

    def __post_init__(self) -> None:
        if self.activation is not None:
            self._set("activation", Activation.of(self.activation))
        if len(self.x) < 2 or self.groups < 1 or self.x[1] % self.groups:
            raise ProblemError("groups", self.groups, f"a divisor of the channels of {self.x}")
        super().__post_init__()

    def _tensors(self) -> Tensors:
        channels = self.x[1:2]
        return (
            ("x", self.x, self.dtype),
            ("scale", channels, self.dtype),
            ("bias", channels, self.dtype),
            ("y", self.x, self.dtype),
        )

    @property
    def activation_of_lines(self) -> Activation | None:
        """The activation."""
        return self.activation

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Normalise, scale and shift, then apply the activation."""
        results = super().reference(inputs)
        return results if self.activation is None else {"y": self.activation(results["y"])}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the norm may be off by, and what an activation makes of that."""
        if self.activation is None:
            return super().allowed_error(inputs, results)
        raw = super().reference(inputs)
        allowed = super().allowed_error(inputs, raw)["y"]
        sizes = np.abs(np.where(np.isfinite(raw["y"]), raw["y"], 0))
        slope = self.activation.largest_slope(float(sizes.max(initial=0.0)))
        roundings = (self.activation.roundings + 4) * self.dtype.arithmetic.unit_roundoff
        return {"y": slope * allowed + roundings * (sizes + np.abs(results["y"]) + 1)}

    @property
    def walk(self) -> LineWalk:
        """Lines along the channels of a group, and all positions."""
        batch, channels, *spatial = self.x
        share = channels // self.groups
        views = []
        for operand in self.operands:
            if operand.name in ("scale", "bias"):
                (step,) = operand.strides
                steps = (0, step * share, step, *(0,) * len(spatial))
            else:
                n, c, *rest = operand.strides
                steps = (n, c * share, c, *rest)
            views.append(View(operand.name, operand.dtype, 0, steps))
        sizes = (batch, self.groups, share, *spatial)
        return LineWalk.of(Walk(sizes, tuple(views)), range(2, len(sizes)))

    def _split(self, x: Array) -> tuple[Array, tuple[int, ...]]:
        return x.reshape(x.shape[0], self.groups, -1), (2,)

    def _spread(self, parameter: Array) -> Array:
        return parameter.reshape(-1, *(1,) * (len(self.x) - 2))
