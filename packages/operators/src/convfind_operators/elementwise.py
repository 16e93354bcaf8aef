"""Operators on every element: `ActivationProblem`, `UnaryProblem`, `BinaryProblem`, their kin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from convfind.errors import ProblemError
from convfind.problem.activation import Activation
from convfind_operators.element_map import ElementMap, conversion_type
from convfind_operators.element_type import ElementType
from convfind_operators.functions import USUAL_NUMBERS, BinaryFunction, UnaryFunction
from convfind_operators.operand import Array, Shape
from convfind_operators.operator import Operator, number, shape_of, word
from convfind_operators.walk import View, Walk

#: Functions of which an operand may be activated: errors of it are not magnified but by the other.
_OF_TERMS = (BinaryFunction.ADD, BinaryFunction.SUB, BinaryFunction.MUL)
#: Roundings that OpenCL allows a function of its library, and some of ours.
_ROUNDINGS = 40


@dataclass(frozen=True, kw_only=True)
class Elementwise(Operator):
    """A function of elements of one or several operands, which are repeated to a common shape.

    The result may be the memory of an operand of its shape, type and strides.
    """

    @property
    @abstractmethod
    def map(self) -> ElementMap:
        """The function as kernels know it."""

    @property
    def walk(self) -> Walk:
        """All operands along the axes of the result."""
        sizes = self.result.shape
        views = tuple(View.broadcast(operand, sizes) for operand in self.operands)
        return Walk(sizes, views).simplified()

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the library's functions may be off by."""
        unit = self.map.arithmetic.unit_roundoff
        return {name: _ROUNDINGS * unit * np.abs(right) for name, right in results.items()}


@dataclass(frozen=True, kw_only=True)
class ActivationProblem(Elementwise):
    """``y = activation(x)``."""

    kind: ClassVar[str] = "activation"

    x: Shape
    activation: Activation

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        self._set("activation", Activation.of(self.activation))
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "floating types")

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return ("x", self.x, self.dtype), ("y", self.x, self.dtype)

    @property
    def map(self) -> ElementMap:
        """The activation."""
        return ElementMap("ACTIVATION", self.dtype.arithmetic, activation=self.activation)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Apply the activation."""
        return {"y": self.activation(inputs["x"])}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the activation's own roundings come to, and those of its argument."""
        x = inputs["x"]
        size = np.abs(results["y"]) + np.abs(np.where(np.isfinite(x), x, 0.0))
        roundings = self.activation.roundings + 4
        return {"y": roundings * self.dtype.arithmetic.unit_roundoff * (size + 1)}


@dataclass(frozen=True, kw_only=True)
class UnaryProblem(Elementwise):
    """``y = function(x)``; questions give bool.

    Attributes:
        x: shape of the operand.
        function: a `UnaryFunction`.
        numbers: the function's own, where it has some; none: the usual ones.
    """

    kind: ClassVar[str] = "unary"

    x: Shape
    function: UnaryFunction
    numbers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        self._set("function", word("function", UnaryFunction, self.function))
        usual = USUAL_NUMBERS.get(self.function, ())
        given = tuple(number("numbers", value) for value in self.numbers) or usual
        if len(given) != len(usual):
            raise ProblemError("numbers", given, f"{len(usual)} numbers for {self.function}")
        self._set("numbers", given)
        super().__post_init__()

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        result = ElementType.BOOL if self.function.gives_bool else self.dtype
        return ("x", self.x, self.dtype), ("y", self.x, result)

    @property
    def map(self) -> ElementMap:
        """The function."""
        a, b = (*self.numbers, 0.0, 0.0)[:2]
        name = self.function.upper().replace("-", "_")
        return ElementMap(name, self.dtype.arithmetic, a, b)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Apply the function."""
        return {"y": self.function(inputs["x"], *self.numbers)}


@dataclass(frozen=True, kw_only=True)
class BinaryProblem(Elementwise):
    """``y = function(a, b)``, with an activation of one of them; comparisons give bool.

    Attributes:
        a, b: shapes, which broadcast to that of y.
        function: a `BinaryFunction`.
        activation: None: none.
        activates: what it is applied to: ``y``, or of a sum, a difference or a product also ``a``
            or ``b``, as in gated linear units.
    """

    kind: ClassVar[str] = "binary"

    a: Shape
    b: Shape
    function: BinaryFunction
    activation: Activation | None = None
    activates: str = "y"

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            self._set(name, shape_of(name, getattr(self, name)))
        self._set("function", word("function", BinaryFunction, self.function))
        if self.activation is None:
            self._set("activates", "y")
        else:
            self._set("activation", Activation.of(self.activation))
        super().__post_init__()
        if self.activates not in (("y", "a", "b") if self.function in _OF_TERMS else ("y",)):
            names = "y; of a sum, a difference or a product also a or b"
            raise ProblemError("activates", self.activates, names)
        if self.dtype.is_float and not self.function.takes_floats:
            raise ProblemError("dtype", self.dtype, f"whole numbers for {self.function}")
        if self.function.is_logic and self.dtype is not ElementType.BOOL:
            raise ProblemError("dtype", self.dtype, f"bool for {self.function}")

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        result = ElementType.BOOL if self.function.gives_bool else self.dtype
        common = broadcast(self.a, self.b)
        return ("a", self.a, self.dtype), ("b", self.b, self.dtype), ("y", common, result)

    @property
    def map(self) -> ElementMap:
        """The function, and the activation of its result or of an operand."""
        name = self.function.upper().replace("-", "_")
        if name in ("AND", "OR", "XOR"):
            name = f"BITWISE_{name}"
        if name in ("MOD", "FMOD", "POW") and not self.dtype.is_float:
            name = f"WHOLE_{name}"
        at = {"a": 0, "b": 1}.get(self.activates)
        return ElementMap(name, self.dtype.arithmetic, activation=self.activation, activates=at)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Apply the function, and the activation before or behind it."""
        given = {name: self._activated(name, inputs[name]) for name in ("a", "b")}
        return {"y": self._activated("y", self.function(given["a"], given["b"]))}

    def _activated(self, name: str, values: Array) -> Array:
        if self.activation is None or self.activates != name:
            return values
        return self.activation(values)

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what the function may be off by, and what an activation makes of that."""
        allowed = super().allowed_error(inputs, results)
        if self.activation is None:
            return allowed
        is_last = self.activates == "y"
        raw = self.function(inputs["a"], inputs["b"]) if is_last else inputs[self.activates]
        size = np.abs(results["y"] if is_last else self.activation(raw))
        size = size + np.abs(np.where(np.isfinite(raw), raw, 0.0)) + 1
        if self.function is BinaryFunction.MUL and not is_last:
            size = size * np.abs(inputs["b" if self.activates == "a" else "a"])
        roundings = self.activation.roundings + 4
        return {"y": allowed["y"] + roundings * self.dtype.arithmetic.unit_roundoff * size}


@dataclass(frozen=True, kw_only=True)
class WhereProblem(Elementwise):
    """``y = a`` where the condition, of bool, holds, and b elsewhere.

    Attributes:
        condition, a, b: shapes, which broadcast to that of y.
    """

    kind: ClassVar[str] = "where"

    condition: Shape
    a: Shape
    b: Shape

    def __post_init__(self) -> None:
        for name in ("condition", "a", "b"):
            self._set(name, shape_of(name, getattr(self, name)))
        super().__post_init__()

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        common = broadcast(self.condition, self.a, self.b)
        return (
            ("condition", self.condition, ElementType.BOOL),
            ("a", self.a, self.dtype),
            ("b", self.b, self.dtype),
            ("y", common, self.dtype),
        )

    @property
    def map(self) -> ElementMap:
        """The choice."""
        return ElementMap("WHERE", self.dtype.arithmetic)

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Choose."""
        return {"y": np.where(inputs["condition"], inputs["a"], inputs["b"])}


@dataclass(frozen=True, kw_only=True)
class CastProblem(Elementwise):
    """``y = x`` as another type; fractions are cut off, and all but 0 is true.

    Numbers that the other type cannot hold become any of its numbers.
    """

    kind: ClassVar[str] = "cast"

    x: Shape
    to: ElementType

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        self._set("to", word("to", ElementType, self.to))
        super().__post_init__()

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        return ("x", self.x, self.dtype), ("y", self.x, self.to)

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draw inputs that the other type can hold."""
        drawn = super().draw(rng)
        return {"x": np.abs(drawn["x"])} if self.to.is_unsigned else drawn

    @property
    def map(self) -> ElementMap:
        """The conversion."""
        return ElementMap("IDENTITY", conversion_type(self.dtype, self.to))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Convert."""
        x = inputs["x"]
        if self.to is ElementType.BOOL:
            return {"y": x != 0}
        return {"y": x if self.to.is_float else np.trunc(x).astype(self.to.numpy)}


@dataclass(frozen=True, kw_only=True)
class BatchNormProblem(Elementwise):
    """``y = activation((x - mean) * scale / sqrt(variance + epsilon) + bias)`` for each channel.

    Attributes:
        x: shape of the operand; channels are axis 1.
        epsilon: what is added to variances.
        statistics: whether there are mean and variance, which are known, as at inference; each has
            one number for each channel. Without them it is ``activation(x * scale + bias)``.
        activation: behind it; None: none.
    """

    kind: ClassVar[str] = "batch-norm"

    x: Shape
    epsilon: float = 1e-5
    statistics: bool = True
    activation: Activation | None = None

    def __post_init__(self) -> None:
        self._set("x", shape_of("x", self.x))
        if len(self.x) < 2:
            raise ProblemError("x", self.x, "batch, channels, and spatial sizes")
        if self.activation is not None:
            self._set("activation", Activation.of(self.activation))
        super().__post_init__()

    @property
    def _parameters(self) -> tuple[str, ...]:
        return ("scale", "bias", "mean", "variance")[: 4 if self.statistics else 2]

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        channels = self.x[1:2]
        parameters = ((name, channels, self.dtype) for name in self._parameters)
        return ("x", self.x, self.dtype), *parameters, ("y", self.x, self.dtype)

    @property
    def walk(self) -> Walk:
        """x and y along their axes, and the numbers of a channel along that of the channels."""
        rest = len(self.x) - 2
        views = [View.of(self.operand("x"))]
        for name in self._parameters:
            operand = self.operand(name)
            views.append(View(name, operand.dtype, 0, (0, *operand.strides, *(0,) * rest)))
        return Walk(self.x, (*views, View.of(self.result))).simplified()

    @property
    def map(self) -> ElementMap:
        """The formula, and the activation behind it."""
        function = "BATCH_NORM" if self.statistics else "SCALE_AND_SHIFT"
        return ElementMap(
            function, self.dtype.arithmetic, epsilon=self.epsilon, activation=self.activation
        )

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draw inputs; variances are positive."""
        drawn = super().draw(rng)
        if not self.statistics:
            return drawn
        return {**drawn, "variance": np.abs(drawn["variance"]) + drawn["variance"].dtype.type(0.5)}

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Scale and shift every channel."""
        shift, *_ = self._terms(inputs)
        return {"y": shift if self.activation is None else self.activation(shift)}

    def _terms(self, inputs: Mapping[str, Array]) -> tuple[Array, Array]:
        """Return the result before the activation, and the size of its terms."""
        scale, bias, *known = (
            inputs[name].reshape(-1, *(1,) * (len(self.x) - 2)) for name in self._parameters
        )
        mean, variance = known or (0.0, 1.0 - self.epsilon)  # what changes nothing
        factor = scale / np.sqrt(variance + self.epsilon)
        x = inputs["x"]
        sizes = (np.abs(x) + np.abs(mean)) * np.abs(factor) + np.abs(bias)
        return (x - mean) * factor + bias, sizes

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what roundings of the terms come to."""
        roundings = 8 if self.activation is None else 16 + self.activation.roundings
        terms = self._terms(inputs)[1] + np.abs(results["y"]) + (self.activation is not None)
        return {"y": roundings * self.dtype.arithmetic.unit_roundoff * terms}


def broadcast(*shapes: Shape) -> Shape:
    """Return the common shape by NumPy's rules. Raises `ProblemError`."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ProblemError("shapes", shapes, "sizes that are equal or 1") from None
