"""Functions of one and of two elements: their words, their references, their names in kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np

from convfind_operators.operand import Array


class UnaryFunction(StrEnum):
    """Functions of one element; an activation is an operator of its own."""

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
    MAGNITUDE = "magnitude"  # also of whole numbers
    BOUNDED = "bounded"  # between a and b, also whole numbers
    THRESHOLDED_RELU = "thresholded-relu"  # 0 up to a
    SELU = "selu"  # b * x, below zero a * b * (exp(x) - 1)
    CELU = "celu"  # below zero a * (exp(x / a) - 1)
    SWISH = "swish"  # x * sigmoid(a * x)
    SOFTSIGN = "softsign"  # x / (1 + |x|)

    @property
    def gives_bool(self) -> bool:
        """True for questions."""
        return self in (UnaryFunction.IS_NAN, UnaryFunction.IS_INF, UnaryFunction.NOT)

    def __call__(self, x: Array, *numbers: float) -> Array:
        """Compute it in NumPy."""
        with np.errstate(all="ignore"):
            return np.asarray(_UNARY[self](x, *numbers))


class BinaryFunction(StrEnum):
    """Functions of two elements, with NumPy's broadcasting."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # whole numbers: towards 0
    MOD = "mod"  # the sign of the divisor
    FMOD = "fmod"  # the sign of the dividend
    POW = "pow"  # whole numbers: exponents from 0 on
    MIN = "min"
    MAX = "max"
    PRELU = "prelu"  # a, or a times b where a is negative
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
    SHIFT_RIGHT = "shift-right"  # by all bits, or by less than none: what is left is the sign

    @property
    def gives_bool(self) -> bool:
        """True for comparisons and logic."""
        return self in _GIVES_BOOL

    @property
    def is_logic(self) -> bool:
        """True for functions of truths."""
        return self in _LOGIC

    @property
    def takes_floats(self) -> bool:
        """True for functions of floating types."""
        return self not in _OF_WHOLE_NUMBERS

    def __call__(self, a: Array, b: Array) -> Array:
        """Compute it in NumPy."""
        with np.errstate(all="ignore"):
            return np.asarray(_BINARY[self](a, b))


def erf(x: Array) -> Array:
    """Compute the error function."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _exponential(x: Array) -> Array:
    return np.expm1(np.minimum(x, 0))


def _negative(x: Array, of_negative: Array) -> Array:
    return np.where(x > 0, x, of_negative)


def _in(x: Array, number: float) -> Any:
    """Return a number as one of x's type, or the nearest to it."""
    if x.dtype.kind == "f":
        return number
    ends = np.iinfo(x.dtype)
    return x.dtype.type(min(max(number, int(ends.min)), int(ends.max)))


def _towards_zero(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(a, b)
    inexact = (quotient < 0) & (quotient * b != a)
    return np.asarray(quotient + inexact.astype(a.dtype))


def _divided(a: Array, b: Array) -> Any:
    return a / b if a.dtype.kind == "f" else _towards_zero(a, b)


_UNARY: dict[UnaryFunction, Callable[..., Any]] = {
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
    UnaryFunction.MAGNITUDE: np.abs,
    UnaryFunction.BOUNDED: lambda x, a, b: np.minimum(np.maximum(x, _in(x, a)), _in(x, b)),
    UnaryFunction.THRESHOLDED_RELU: lambda x, a: np.where((x > a) | np.isnan(x), x, 0.0),
    UnaryFunction.SELU: lambda x, a, b: b * _negative(x, a * _exponential(x)),
    UnaryFunction.CELU: lambda x, a: _negative(x, a * _exponential(x / a)),
    UnaryFunction.SWISH: lambda x, a: x / (1 + np.exp(-a * x)),
    UnaryFunction.SOFTSIGN: lambda x: x / (1 + np.abs(x)),
}
#: The numbers of those that have any, as they usually are.
USUAL_NUMBERS: dict[UnaryFunction, tuple[float, ...]] = {
    UnaryFunction.BOUNDED: (-math.inf, math.inf),
    UnaryFunction.THRESHOLDED_RELU: (1.0,),
    UnaryFunction.SELU: (1.67326319217681884765625, 1.05070102214813232421875),
    UnaryFunction.CELU: (1.0,),
    UnaryFunction.SWISH: (1.0,),
}
_BINARY: dict[BinaryFunction, Callable[[Array, Array], Any]] = {
    BinaryFunction.ADD: np.add,
    BinaryFunction.SUB: np.subtract,
    BinaryFunction.MUL: np.multiply,
    BinaryFunction.DIV: _divided,
    BinaryFunction.MOD: np.mod,
    BinaryFunction.FMOD: np.fmod,
    BinaryFunction.POW: np.power,
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
_LOGIC = {BinaryFunction.AND, BinaryFunction.OR, BinaryFunction.XOR}
_GIVES_BOOL = _LOGIC | {
    BinaryFunction.EQUAL,
    BinaryFunction.LESS,
    BinaryFunction.LESS_EQUAL,
    BinaryFunction.GREATER,
    BinaryFunction.GREATER_EQUAL,
}
_OF_WHOLE_NUMBERS = _LOGIC | {
    BinaryFunction.BITWISE_AND,
    BinaryFunction.BITWISE_OR,
    BinaryFunction.BITWISE_XOR,
    BinaryFunction.SHIFT_LEFT,
    BinaryFunction.SHIFT_RIGHT,
}
