"""`Op`: what a node computes, with its rule for shapes and its reference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from convfind_networks.tensor_type import Array, TensorType, is_float

T = TypeVar("T")


class Op(ABC):
    """The computation of a node: a frozen dataclass, whose fields are all that is not a tensor.

    Two methods define an operation: `infer` gives the types of its results, or refuses the inputs
    with a `GraphError`; `evaluate` is the reference, in NumPy. Inputs come in the order that the
    class documents; where an input may be absent, a field says so or it is the last.
    """

    #: Inputs whose memory the result may take, where types agree and nobody reads them later.
    in_place: ClassVar[tuple[int, ...]] = ()
    #: True where the result is the input's memory under another shape.
    is_view: ClassVar[bool] = False
    #: True where tensors may lie channels-first or channels-last, the result like the inputs.
    follows_layout: ClassVar[bool] = False

    @abstractmethod
    def infer(self, *inputs: Any) -> TensorType | tuple[TensorType, ...]:
        """Return the type of the result, or of each of several results, from the inputs' types.

        Raises:
            GraphError: these inputs are impossible; says why.
        """

    @abstractmethod
    def evaluate(self, *inputs: Any) -> Array | tuple[Array, ...]:
        """Compute the result, or several results; floating-point inputs come as float64."""

    def macs(self, *inputs: Any) -> int:
        """Multiply-accumulate operations; 0 for all but convolutions and matrix products."""
        return 0

    @property
    def kind(self) -> str:
        """Name of the operation."""
        return type(self).__name__

    def __str__(self) -> str:
        changed = [
            f"{field.name}={_text(value)}"
            for field in fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, field.name)) != field.default and value not in ((), None)
        ]
        return f"{self.kind}[{', '.join(changed)}]" if changed else self.kind


def _text(value: object) -> str:
    return str(value).replace(" ", "") if isinstance(value, tuple) else str(value)


def as_tuple(results: T | tuple[T, ...]) -> tuple[T, ...]:
    """Return one result or several as a tuple."""
    return results if isinstance(results, tuple) else (results,)


def widened(array: Array) -> Array:
    """Return floating-point elements as float64, all others as they are."""
    return array.astype(np.float64) if is_float(array.dtype) else array


def scaled(array: Array, by: Array) -> Array:
    """Return an array times another, in the array's type, rounded once."""
    result = np.empty(np.broadcast_shapes(array.shape, by.shape), array.dtype)
    return np.multiply(array, by, out=result, dtype=np.float64, casting="unsafe")


def run_op(op: Op, inputs: Sequence[Array], types: Sequence[TensorType]) -> tuple[Array, ...]:
    """Compute an operation in float64 and round the results to their types."""
    with np.errstate(all="ignore"):
        results = as_tuple(op.evaluate(*map(widened, inputs)))
        return tuple(
            np.asarray(result).astype(kind.dtype, copy=False)
            for result, kind in zip(results, types, strict=True)
        )
