"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperator, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BinaryFunction,
    Cast,
    Identity,
    Unary,
    UnaryFunction,
    Where,
)


def _unary(function: UnaryFunction) -> OnnxOperator:
    return lambda node: node.add(Unary(function), node.input(0))


def _binary(function: BinaryFunction) -> OnnxOperator:
    """Return the function of an operator on two tensors; their shapes were aligned by an
    attribute before opset 7."""

    def add(node: OnnxNode) -> Value:
        a, b = node.input(0), node.input(1)
        axis = node.attribute("axis")
        if node.opset < 7 and axis is not None and int(axis) >= 0:
            b = node.reshape(b, *b.shape, *(1,) * (a.type.rank - int(axis) - b.type.rank))
        return node.binary(function, a, b)

    return add


def _chain(function: BinaryFunction) -> OnnxOperator:
    """Return the function of an operator on any number of tensors."""

    def add(node: OnnxNode) -> Value:
        first, *rest = node.values()
        if not rest:
            return node.add(Identity(), first)
        return reduce(lambda a, b: node.binary(function, a, b), rest, first)

    return add


def mean(node: OnnxNode) -> Value:
    """Mean of any number of tensors."""
    values = node.values()
    total = reduce(node.plus, values[1:], values[0])
    return node.over(total, len(values))


def mod(node: OnnxNode) -> Value:
    """Mod, with the sign of either operand."""
    function = BinaryFunction.FMOD if node.integer("fmod", 0) else BinaryFunction.MOD
    return node.binary(function, node.input(0), node.input(1))


def bit_shift(node: OnnxNode) -> Value:
    """BitShift."""
    left = node.word("direction", "LEFT") == "LEFT"
    function = BinaryFunction.SHIFT_LEFT if left else BinaryFunction.SHIFT_RIGHT
    return node.binary(function, node.input(0), node.input(1))


def power(node: OnnxNode) -> Value:
    """Pow, in the type of the base; whole numbers with other exponents are powers of reals."""
    base, exponent = node.input(0), node.input(1)
    if base.type.is_float or not exponent.type.is_float:
        return node.binary(BinaryFunction.POW, base, node.cast(exponent, base.dtype))
    real = node.cast(base, np.float64), node.cast(exponent, np.float64)
    return node.cast(node.binary(BinaryFunction.POW, *real), base.dtype)


def is_inf(node: OnnxNode) -> Value:
    """IsInf, of either sign or one of them."""
    x = node.input(0)
    positive, negative = node.integer("detect_positive", 1), node.integer("detect_negative", 1)
    if positive and negative:
        return node.unary(UnaryFunction.IS_INF, x)
    if not positive and not negative:
        return node.const(np.zeros(x.shape, np.bool_))
    return node.binary(BinaryFunction.EQUAL, x, np.inf if positive else -np.inf)


def shrink(node: OnnxNode) -> Value:
    """Shrink: 0 around 0, shifted towards it elsewhere."""
    x = node.input(0)
    bias, bound = node.real("bias", 0.0), node.real("lambd", 0.5)
    below = node.binary(BinaryFunction.LESS, x, -bound)
    above = node.binary(BinaryFunction.GREATER, x, bound)
    inside = node.add(Where(), above, node.minus(x, bias), node.const(0, like=x))
    return node.add(Where(), below, node.plus(x, bias), inside)


def where(node: OnnxNode) -> Value:
    """Where."""
    return node.add(Where(), *node.values())


def cast(node: OnnxNode) -> Value:
    """Cast, and CastLike, whose type is that of another tensor."""
    like = node.optional(1) if node.proto.op_type == "CastLike" else None
    dtype = node.dtype("to") if like is None else like.dtype
    x = node.input(0)
    if "e8m0" in dtype.name:
        raise NotSupported(f"rounding to {dtype.name}")
    if "float8" in dtype.name and node.integer("saturate", 1):
        limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        bounds = Activation(ActivationKind.CLIP, (float(limits.min), float(limits.max)))
        x = node.add(Activate(bounds), node.cast(x, np.float32))
    return node.add(Cast(dtype), x)


def dropout(node: OnnxNode) -> tuple[Value, ...]:
    """Dropout, which changes nothing unless a network is trained."""
    x = node.input(0)
    if node.opset >= 12 and node.optional(2) is not None:
        ratio = 0.5 if node.optional(1) is None else float(node.array(1, "ratio").item())
        if bool(node.array(2, "training_mode").item()) and ratio:
            raise NotSupported("training_mode: it is random")
    if node.opset < 7 and not node.integer("is_test", 0):
        raise NotSupported("is_test=0: it is random")
    y = node.add(Identity(), x)
    return (y, node.const(np.ones(x.shape, np.bool_))) if node.has_output(1) else (y,)


def identity(node: OnnxNode) -> Value:
    """Identity."""
    return node.add(Identity(), node.input(0))


_UNARY = {
    "Neg": UnaryFunction.NEG,
    "Exp": UnaryFunction.EXP,
    "Log": UnaryFunction.LOG,
    "Sqrt": UnaryFunction.SQRT,
    "Reciprocal": UnaryFunction.RECIPROCAL,
    "Erf": UnaryFunction.ERF,
    "Sign": UnaryFunction.SIGN,
    "Floor": UnaryFunction.FLOOR,
    "Ceil": UnaryFunction.CEIL,
    "Round": UnaryFunction.ROUND,
    "Sin": UnaryFunction.SIN,
    "Cos": UnaryFunction.COS,
    "Tan": UnaryFunction.TAN,
    "Asin": UnaryFunction.ASIN,
    "Acos": UnaryFunction.ACOS,
    "Atan": UnaryFunction.ATAN,
    "Sinh": UnaryFunction.SINH,
    "Cosh": UnaryFunction.COSH,
    "Asinh": UnaryFunction.ASINH,
    "Acosh": UnaryFunction.ACOSH,
    "Atanh": UnaryFunction.ATANH,
    "IsNaN": UnaryFunction.IS_NAN,
    "Not": UnaryFunction.NOT,
    "BitwiseNot": UnaryFunction.BITWISE_NOT,
}
_BINARY = {
    "Add": BinaryFunction.ADD,
    "Sub": BinaryFunction.SUB,
    "Mul": BinaryFunction.MUL,
    "Div": BinaryFunction.DIV,
    "Equal": BinaryFunction.EQUAL,
    "Less": BinaryFunction.LESS,
    "LessOrEqual": BinaryFunction.LESS_EQUAL,
    "Greater": BinaryFunction.GREATER,
    "GreaterOrEqual": BinaryFunction.GREATER_EQUAL,
    "And": BinaryFunction.AND,
    "Or": BinaryFunction.OR,
    "Xor": BinaryFunction.XOR,
    "BitwiseAnd": BinaryFunction.BITWISE_AND,
    "BitwiseOr": BinaryFunction.BITWISE_OR,
    "BitwiseXor": BinaryFunction.BITWISE_XOR,
}
_CHAINS = {"Sum": BinaryFunction.ADD, "Min": BinaryFunction.MIN, "Max": BinaryFunction.MAX}

OPERATORS: OnnxOperators = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    **{name: _chain(function) for name, function in _CHAINS.items()},
    "Mean": mean,
    "Mod": mod,
    "BitShift": bit_shift,
    "Pow": power,
    "IsInf": is_inf,
    "Shrink": shrink,
    "Where": where,
    "Cast": cast,
    "CastLike": cast,
    "Dropout": dropout,
    "Identity": identity,
}
