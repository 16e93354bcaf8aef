"""`MatMul`: products of two computed matrices, or of many at once; `IntegerMatMul`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class MatMul(Op):
    """``alpha`` times products of the last two dimensions, by NumPy's rules for the others.

    Reads a and b. Whole numbers have an alpha of 1.
    """

    alpha: float = 1.0

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """Return the type of the product."""
        if a.dtype != b.dtype:
            raise GraphError(f"a and b are of one type, not {a} and {b}")
        if self.alpha != 1 and not a.is_float:
            raise GraphError(f"products of {a} have an alpha of 1, not {self.alpha}")
        return a.with_shape(_product_shape(a, b))

    def evaluate(self, a: Array, b: Array) -> Array:
        """Compute the products."""
        product = np.asarray(a @ b)
        return product if self.alpha == 1 else self.alpha * product

    def macs(self, a: TensorType, b: TensorType) -> int:
        """Multiply-accumulate operations."""
        return a.with_shape(_product_shape(a, b)).elements * a.shape[-1]


@dataclass(frozen=True)
class IntegerMatMul(Op):
    """Products of 8-bit whole numbers with int32 sums.

    Reads a, b, the zero point of a and the zero point of b; zero points have shapes that
    broadcast against a and b.
    """

    def infer(
        self, a: TensorType, b: TensorType, a_zero: TensorType, b_zero: TensorType
    ) -> TensorType:
        """Return the type of the product: int32."""
        if any(kind.dtype.itemsize != 1 or kind.is_float for kind in (a, b, a_zero, b_zero)):
            raise GraphError(f"a and b are int8 or uint8, not {a} and {b}")
        for of, zero in ((a, a_zero), (b, b_zero)):
            if broadcast_shape(of.shape, zero.shape) != of.shape:
                raise GraphError(f"zero points {zero} do not go with {of}")
        return a.with_shape(_product_shape(a, b)).with_dtype(np.int32)

    def evaluate(self, a: Array, b: Array, a_zero: Array, b_zero: Array) -> Array:
        """Compute the products."""
        left, right = (array.astype(np.int32) - zero for array, zero in ((a, a_zero), (b, b_zero)))
        return np.asarray(left @ right)

    def macs(self, a: TensorType, b: TensorType, *_: TensorType) -> int:
        """Multiply-accumulate operations."""
        return a.with_shape(_product_shape(a, b)).elements * a.shape[-1]


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape by NumPy's rules, or raise `GraphError`."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as exc:
        raise GraphError(f"shapes {', '.join(map(str, shapes))} do not go together") from exc


def _product_shape(a: TensorType, b: TensorType) -> tuple[int, ...]:
    if not a.rank or not b.rank:
        raise GraphError(f"products take matrices, not {a} and {b}")
    if a.shape[-1] != b.shape[max(b.rank - 2, 0)]:
        raise GraphError(f"{a} and {b} do not go together in a product")
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))
