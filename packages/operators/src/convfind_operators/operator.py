"""`Operator`: a problem that needs no find: operands, reference, and how exact results are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from convfind.cached import cached_property
from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Operand, Shape, packed_strides

#: The most elements of a tensor: offsets in kernels have 64 bits, and rows 32.
LARGEST = 2**40

Strides = tuple[tuple[str, Shape], ...]


def word(field: str, kind: type[Any], value: object) -> Any:
    """Return the member of a vocabulary with this name. Raises `ProblemError`."""
    try:
        return kind(value)
    except ValueError:
        raise ProblemError(field, value, ", ".join(str(member) for member in kind)) from None


def shape_of(field: str, value: Sequence[int]) -> Shape:
    """Return a shape as plain numbers. Raises `ProblemError`."""
    try:
        shape = tuple(map(int, value))
    except (TypeError, ValueError):
        raise ProblemError(field, value, "whole numbers") from None
    if any(size < 0 for size in shape) or math.prod(shape) > LARGEST:
        raise ProblemError(field, shape, f"sizes from 0 on, {LARGEST} elements at most")
    return shape


def number(field: str, value: object) -> float:
    """Return a number. Raises `ProblemError`."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ProblemError(field, value, "a number") from None


@dataclass(frozen=True, kw_only=True)
class Operator(ABC):
    """An operation on tensors: a frozen value with everything that changes results or speed.

    Shapes are in N, C, spatial order, whatever the layout in memory.

    Attributes:
        dtype: element type of all operands but those that a type names differently.
        channels_last: whether axis 1 comes last in memory, in operands with as many axes, more
            than two, as the result has; others lie in the order of their axes.
        strides: strides of operands with gaps or another order, by name, in elements; a mapping
            is accepted.
    """

    kind: ClassVar[str]
    #: Nothing is measured: the first solver that takes a problem computes it.
    is_measured: ClassVar[bool] = False

    dtype: ElementType = ElementType.FLOAT32
    channels_last: bool = False
    strides: Strides | Mapping[str, Sequence[int]] = ()

    def __post_init__(self) -> None:
        """Bring the fields into their one spelling. Raises `ProblemError`."""
        self._set("dtype", word("dtype", ElementType, self.dtype))
        plain = {name: tuple(map(int, steps)) for name, steps in dict(self.strides).items()}
        self._set("strides", tuple(sorted(plain.items())))
        known = {operand.name: operand for operand in self.operands}
        for name, steps in plain.items():
            if name not in known or len(steps) != len(known[name].shape):
                names = ", ".join(known)
                raise ProblemError("strides", name, f"one number for each axis of {names}")

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    @abstractmethod
    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        """Return name, shape and type of each operand, those that are written last."""

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors in memory, in the order of a call."""
        tensors = self._tensors()
        rank = len(tensors[-1][1])
        given = {name: tuple(steps) for name, steps in dict(self.strides).items()}
        return tuple(
            Operand(
                name,
                shape,
                dtype,
                given.get(name)
                or packed_strides(shape, channels_last=self.channels_last and len(shape) == rank),
            )
            for name, shape, dtype in tensors
        )

    def operand(self, name: str) -> Operand:
        """Return the operand of a name."""
        return next(operand for operand in self.operands if operand.name == name)

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the operands that are written."""
        return ("y",)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the operands that are read."""
        return tuple(one.name for one in self.operands if one.name not in self.writes)

    @property
    def result(self) -> Operand:
        """The operand that is written, or the first of them."""
        return self.operand(self.writes[0])

    @cached_property
    def key(self) -> str:
        """The canonical text: the kind, then all fields that are not as usual."""
        words = [self.kind]
        for field in sorted(fields(self), key=lambda field: field.name):
            value = getattr(self, field.name)
            if value != field.default:
                words.append(f"{field.name}:{_text(value)}")
        return "_".join(words)

    @property
    def text(self) -> str:
        """The key, which has everything."""
        return self.key

    @property
    def domain_key(self) -> Hashable:
        """All that domains look at: the kind, the type of the first operand, and the traits."""
        return self.kind, self.operands[0].dtype, self.traits

    @property
    def traits(self) -> frozenset[str]:
        """The special properties: gaps in the memory of an operand."""
        return frozenset({"gaps"} if self.strides else ())

    @property
    def flops(self) -> float:
        """Floating-point operations: one for each element of the results."""
        return float(sum(self.operand(name).elements for name in self.writes))

    @property
    def traffic(self) -> float:
        """Bytes that are read and written at least."""
        return float(sum(one.elements * one.dtype.size for one in self.operands))

    def plain_name(self, tensor: str) -> str:
        """Return the name of an operand in the problem that solvers see: the same."""
        return tensor

    def plain(self) -> Self:
        """Return the problem that solvers see: itself."""
        return self

    # -- checking -----------------------------------------------------------------------------

    @abstractmethod
    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the results by name, not yet rounded; floating inputs come as float64."""

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draw inputs by name, in their types and shapes."""
        return {
            name: self._drawn(self.operand(name), rng).astype(self.operand(name).dtype.numpy)
            for name in self.reads
        }

    def _drawn(self, operand: Operand, rng: np.random.Generator) -> Array:
        if operand.dtype.is_float:
            return rng.uniform(-2.0, 2.0, operand.shape)
        if operand.dtype is ElementType.BOOL:
            return rng.integers(0, 2, operand.shape)
        least = 0 if operand.dtype.is_unsigned else -9
        return rng.integers(least, 10, operand.shape)

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return the largest error of each element of the results, beside its last rounding.

        NaN: where the result is infinite, it may also be NaN.
        """
        unit = self.dtype.arithmetic.unit_roundoff
        return {name: 4 * unit * np.abs(right) for name, right in results.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        if all(isinstance(entry, int) for entry in value):
            return "x".join(map(str, value)) or "none"
        return ",".join(map(_text, value))
    return str(value)
