"""Operations on every element, or on pairs of them: `Unary`, `Binary`, `Where`, `Cast`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.activation import Activation, erf
from convfind_networks.ops.matmul import broadcast_shape
from convfind_networks.ops.op import Op, widened
from convfind_networks.tensor_type import Array, TensorType, is_float


class UnaryFunction(StrEnum):
    """Functions of one element; an `Activation` is another operation."""

    NEG = "neg"
    EXP = "exp"
    LOG = "log"
    SQRT = "sqrt"
    RECIPROCAL = "reciprocal"
    ERF = "erf"
    SIGN = "sign"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # halves to even
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    IS_NAN = "is-nan"
    IS_INF = "is-inf"
    NOT = "not"
    BITWISE_NOT = "bitwise-not"


_UNARY: dict[UnaryFunction, Callable[[Array], Any]] = {
    UnaryFunction.NEG: np.negative,
    UnaryFunction.EXP: np.exp,
    UnaryFunction.LOG: np.log,
    UnaryFunction.SQRT: np.sqrt,
    UnaryFunction.RECIPROCAL: lambda x: 1 / x,
    UnaryFunction.ERF: erf,
    UnaryFunction.SIGN: np.sign,
    UnaryFunction.FLOOR: np.floor,
    UnaryFunction.CEIL: np.ceil,
    UnaryFunction.ROUND: np.rint,
    UnaryFunction.SIN: np.sin,
    UnaryFunction.COS: np.cos,
    UnaryFunction.TAN: np.tan,
    UnaryFunction.ASIN: np.arcsin,
    UnaryFunction.ACOS: np.arccos,
    UnaryFunction.ATAN: np.arctan,
    UnaryFunction.SINH: np.sinh,
    UnaryFunction.COSH: np.cosh,
    UnaryFunction.ASINH: np.arcsinh,
    UnaryFunction.ACOSH: np.arccosh,
    UnaryFunction.ATANH: np.arctanh,
    UnaryFunction.IS_NAN: np.isnan,
    UnaryFunction.IS_INF: np.isinf,
    UnaryFunction.NOT: np.logical_not,
    UnaryFunction.BITWISE_NOT: np.invert,
}
_GIVES_BOOL = {UnaryFunction.IS_NAN, UnaryFunction.IS_INF, UnaryFunction.NOT}


class BinaryFunction(StrEnum):
    """Functions of two elements, with broadcasting."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # whole numbers: towards 0
    MOD = "mod"  # the sign of the divisor
    FMOD = "fmod"  # the sign of the dividend
    POW = "pow"
    MIN = "min"
    MAX = "max"
    PRELU = "prelu"  # x, or x times the slope where x is negative
    EQUAL = "equal"
    LESS = "less"
    LESS_EQUAL = "less-equal"
    GREATER = "greater"
    GREATER_EQUAL = "greater-equal"
    AND = "and"
    OR = "or"
    XOR = "xor"
    BITWISE_AND = "bitwise-and"
    BITWISE_OR = "bitwise-or"
    BITWISE_XOR = "bitwise-xor"
    SHIFT_LEFT = "shift-left"
    SHIFT_RIGHT = "shift-right"


def _divide(a: Array, b: Array) -> Any:
    if is_float(a.dtype):
        return a / b
    if a.dtype.kind == "u":
        return a // b
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def _power(a: Array, b: Array) -> Any:
    if is_float(a.dtype) or is_float(b.dtype) or (b < 0).any():
        return np.power(a.astype(np.float64), b.astype(np.float64))
    return np.power(a, b)


_BINARY: dict[BinaryFunction, Callable[[Array, Array], Any]] = {
    BinaryFunction.ADD: np.add,
    BinaryFunction.SUB: np.subtract,
    BinaryFunction.MUL: np.multiply,
    BinaryFunction.DIV: _divide,
    BinaryFunction.MOD: np.mod,
    BinaryFunction.FMOD: np.fmod,
    BinaryFunction.POW: _power,
    BinaryFunction.MIN: np.minimum,
    BinaryFunction.MAX: np.maximum,
    BinaryFunction.PRELU: lambda x, slope: np.where(x < 0, slope * x, x),
    BinaryFunction.EQUAL: np.equal,
    BinaryFunction.LESS: np.less,
    BinaryFunction.LESS_EQUAL: np.less_equal,
    BinaryFunction.GREATER: np.greater,
    BinaryFunction.GREATER_EQUAL: np.greater_equal,
    BinaryFunction.AND: np.logical_and,
    BinaryFunction.OR: np.logical_or,
    BinaryFunction.XOR: np.logical_xor,
    BinaryFunction.BITWISE_AND: np.bitwise_and,
    BinaryFunction.BITWISE_OR: np.bitwise_or,
    BinaryFunction.BITWISE_XOR: np.bitwise_xor,
    BinaryFunction.SHIFT_LEFT: np.left_shift,
    BinaryFunction.SHIFT_RIGHT: np.right_shift,
}
_COMPARES = {
    BinaryFunction.EQUAL,
    BinaryFunction.LESS,
    BinaryFunction.LESS_EQUAL,
    BinaryFunction.GREATER,
    BinaryFunction.GREATER_EQUAL,
    BinaryFunction.AND,
    BinaryFunction.OR,
    BinaryFunction.XOR,
}
#: Functions of which an operand may be activated, as in gated linear units.
TAKES_GATES = frozenset({BinaryFunction.ADD, BinaryFunction.SUB, BinaryFunction.MUL})


@dataclass(frozen=True)
class Unary(Op):
    """A function of every element. Reads x."""

    in_place: ClassVar[tuple[int, ...]] = (0,)
    follows_layout: ClassVar[bool] = True

    function: UnaryFunction

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x, or bool for questions."""
        return x.with_dtype(np.bool_) if self.function in _GIVES_BOOL else x

    def evaluate(self, x: Array) -> Array:
        """Apply the function."""
        return np.asarray(_UNARY[self.function](x))

    def __str__(self) -> str:
        return f"Unary[{self.function}]"


@dataclass(frozen=True)
class Binary(Op):
    """A function of two elements, with NumPy's broadcasting, and an activation. Reads a and b.

    Both are of one type. The activation is applied to what ``activates`` names: ``y``, the result,
    or of a sum, a difference or a product also ``a`` or ``b``.
    """

    in_place: ClassVar[tuple[int, ...]] = (0, 1)
    follows_layout: ClassVar[bool] = True

    function: BinaryFunction
    activation: Activation | None = None
    activates: str = "y"

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """Return the type of a with the common shape, or bool for comparisons."""
        if self.activates not in ("y", "a", "b")[: 3 if self.function in TAKES_GATES else 1]:
            raise GraphError(f"{self.function} does not activate {self.activates}")
        if a.dtype != b.dtype and self.function is not BinaryFunction.POW:
            raise GraphError(f"{self.function} takes two tensors of one type, not {a} and {b}")
        common = a.with_shape(broadcast_shape(a.shape, b.shape))
        return common.with_dtype(np.bool_) if self.function in _COMPARES else common

    def evaluate(self, a: Array, b: Array) -> Array:
        """Apply the function, and the activation before or behind it."""
        a, b = self._activated("a", a), self._activated("b", b)
        return self._activated("y", np.asarray(_BINARY[self.function](a, b)))

    def _activated(self, name: str, x: Array) -> Array:
        return x if self.activation is None or self.activates != name else self.activation(x)

    def __str__(self) -> str:
        if self.activation is None:
            return f"Binary[{self.function}]"
        of = "" if self.activates == "y" else f"({self.activates})"
        return f"Binary[{self.function}+{self.activation}{of}]"


@dataclass(frozen=True)
class Where(Op):
    """A choice between two elements. Reads the condition (bool), a and b, with broadcasting."""

    in_place: ClassVar[tuple[int, ...]] = (1, 2)
    follows_layout: ClassVar[bool] = True

    def infer(self, condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
        """Return the type of a with the common shape."""
        if a.dtype != b.dtype or condition.dtype != np.bool_:
            raise GraphError(f"a choice between {a} and {b} by {condition} is not possible")
        return a.with_shape(broadcast_shape(condition.shape, a.shape, b.shape))

    def evaluate(self, condition: Array, a: Array, b: Array) -> Array:
        """Choose a where the condition holds."""
        return np.where(condition, a, b)


@dataclass(frozen=True)
class Cast(Op):
    """Elements as another type. Reads x."""

    follows_layout: ClassVar[bool] = True

    dtype: np.dtype[Any]

    def infer(self, x: TensorType) -> TensorType:
        """Return the shape of x with the new type."""
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array) -> Array:
        """Convert, rounding what a narrower floating type cannot hold."""
        return widened(x.astype(self.dtype))

    def __str__(self) -> str:
        return f"Cast[{self.dtype.name}]"


@dataclass(frozen=True)
class Identity(Op):
    """The input itself: what a dropout is when nothing is trained. Reads x."""

    is_view: ClassVar[bool] = True
    follows_layout: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of x."""
        return x

    def evaluate(self, x: Array) -> Array:
        """Return x."""
        return x
