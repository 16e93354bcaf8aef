"""The common part of importers: refusing an operator, and small compositions of operations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from convfind_networks.errors import ModelFormatError, UnsupportedError
from convfind_networks.graph import GraphBuilder, Value
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Binary,
    BinaryFunction,
    Cast,
    Reduce,
    ReduceFunction,
    Reshape,
    Transpose,
    Unary,
    UnaryFunction,
)


class NotSupported(Exception):
    """Says why an operator cannot be taken over; importers collect these into one list."""


class AlreadyListed(NotSupported):
    """An operator needs the result of another one, which is on the list already."""


def plain(text: object) -> str:
    """Return foreign text without control characters, and not without end."""
    word = text.decode("latin-1") if isinstance(text, bytes) else str(text)
    return re.sub(r"[^\x20-\x7e]+", " ", word).strip()[:120]


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever foreign data bring about into a `ModelFormatError` of one line.

    Args:
        what: what is being read, and what is wrong with it if that fails.
    """
    try:
        yield
    except (NotSupported, ModelFormatError, UnsupportedError):
        raise
    except Exception as exc:  # of any kind: attributes, names and shapes are anybody's
        raise ModelFormatError(f"{what}: {plain(exc) or type(exc).__name__}") from exc


class Composer:
    """Adds operations for one operator of a model, under its name."""

    def __init__(self, builder: GraphBuilder, label: str) -> None:
        self.builder = builder
        self.label = label

    def add(self, op: Any, *inputs: Value) -> Value:
        """Add an operation with one result."""
        return self.builder.add(op, *inputs, name=self.label)

    def add_all(self, op: Any, *inputs: Value) -> tuple[Value, ...]:
        """Add an operation with several results."""
        return self.builder.add_all(op, *inputs, name=self.label)

    def const(self, data: Any, like: Value | None = None) -> Value:
        """Add a constant, of the type of another value if that is given."""
        return self.builder.constant(data, like.dtype if like else None, name=self.label)

    def operand(self, given: Value | float, like: Value) -> Value:
        """Return a value, or a number as a constant of the type of another value."""
        if isinstance(given, Value):
            return given
        return self.builder.constant(given, like.dtype, name=f"{self.label}.number")

    def binary(self, function: BinaryFunction, a: Value, b: Value | float) -> Value:
        """Combine two values, or a value and a number of its type."""
        return self.add(Binary(function), a, self.operand(b, like=a))

    def plus(self, a: Value, b: Value | float) -> Value:
        """Add."""
        return self.binary(BinaryFunction.ADD, a, b)

    def minus(self, a: Value, b: Value | float) -> Value:
        """Subtract."""
        return self.binary(BinaryFunction.SUB, a, b)

    def times(self, a: Value, b: Value | float) -> Value:
        """Multiply; by 1 means not at all."""
        if not isinstance(b, Value) and b == 1:
            return a
        return self.binary(BinaryFunction.MUL, a, b)

    def over(self, a: Value, b: Value | float) -> Value:
        """Divide."""
        return self.binary(BinaryFunction.DIV, a, b)

    def magnitude(self, x: Value) -> Value:
        """Return absolute values."""
        return self.add(Activate(Activation(ActivationKind.ABS)), x)

    def unary(self, function: UnaryFunction, x: Value) -> Value:
        """Apply a function of one element."""
        return self.add(Unary(function), x)

    def reduce(
        self, function: ReduceFunction, x: Value, *axes: int, keepdims: bool = True
    ) -> Value:
        """Reduce along axes, which may be negative."""
        return self.add(Reduce(function, axes_of(axes, x.type.rank), keepdims), x)

    def reshape(self, x: Value, *shape: int) -> Value:
        """Give a value another shape."""
        return self.add(Reshape(shape), x)

    def transpose(self, x: Value, *order: int) -> Value:
        """Permute dimensions."""
        return self.add(Transpose(order), x)

    def cast(self, x: Value, dtype: np.dtype[Any] | type[np.generic]) -> Value:
        """Convert, unless the type is that already."""
        return x if x.dtype == np.dtype(dtype) else self.add(Cast(np.dtype(dtype)), x)


def axis_of(axis: int, rank: int) -> int:
    """Return an axis that counts from the beginning.

    Raises:
        NotSupported: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise NotSupported(f"axis {axis} of {rank} dimensions")
    return axis % rank


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Return axes that count from the beginning, in order."""
    return tuple(sorted({axis_of(int(axis), rank) for axis in axes}))
