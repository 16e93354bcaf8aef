"""Arithmetic, comparisons, and choices between elements."""

from __future__ import annotations

import math

import numpy as np

from convfind_networks.from_torch.element_type import promoted
from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import BinaryFunction, UnaryFunction, Where


def _unary(function: UnaryFunction) -> AtenOperator:
    return lambda node: node.unary(function, node.typed(node.value(), node.dtype()))


def rsqrt(node: AtenNode) -> Value:
    """aten.rsqrt."""
    return node.unary(UnaryFunction.RECIPROCAL, node.unary(UnaryFunction.SQRT, node.value()))


def _arithmetic(function: BinaryFunction, *, swapped: bool = False) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        a = node.get("self")
        b = node.get("other", node.get("exponent"))
        alpha = node.get("alpha", 1)
        if alpha != 1:
            if swapped:
                raise NotSupported("alpha")
            b = node.times(node.typed(b, node.dtype()), alpha)
        return node.arithmetic(function, b, a) if swapped else node.arithmetic(function, a, b)

    return add


def divide(node: AtenNode) -> Value:
    """aten.div, exact or rounded."""
    quotient = node.arithmetic(BinaryFunction.DIV, node.get("self"), node.get("other"))
    mode = node.get("rounding_mode")
    if mode == "floor":
        return divide_down(node)
    if mode is None or not quotient.type.is_float:
        return quotient
    return _truncated(node, quotient)


def divide_down(node: AtenNode) -> Value:
    """aten.floor_divide."""
    a, b = (node.typed(node.get(name), node.dtype()) for name in ("self", "other"))
    if not a.type.is_float:
        return node.over(node.minus(a, node.binary(BinaryFunction.MOD, a, b)), b)
    # A quotient that was rounded may be a whole number above the one that is wanted.
    rest = node.binary(BinaryFunction.FMOD, a, b)
    whole = node.unary(UnaryFunction.ROUND, node.over(node.minus(a, rest), b))
    signs = (node.binary(BinaryFunction.LESS, one, 0.0) for one in (rest, b))
    differ = node.binary(BinaryFunction.XOR, *signs)
    exact = node.binary(BinaryFunction.EQUAL, rest, 0.0)
    same = node.binary(BinaryFunction.OR, exact, node.unary(UnaryFunction.NOT, differ))
    down = node.add(Where(), same, whole, node.minus(whole, 1.0))
    by_zero = node.binary(BinaryFunction.EQUAL, b, 0.0)
    return node.add(Where(), by_zero, node.over(a, b), down)


def _truncated(node: AtenNode, x: Value) -> Value:
    """Round towards 0."""
    down = node.unary(UnaryFunction.FLOOR, node.magnitude(x))
    return node.times(node.unary(UnaryFunction.SIGN, x), down)


def round_(node: AtenNode) -> Value:
    """aten.round, to whole numbers."""
    if node.get("decimals", 0):
        raise NotSupported("decimals")
    return node.unary(UnaryFunction.ROUND, node.value())


def truncate(node: AtenNode) -> Value:
    """aten.trunc; whole numbers stay."""
    x = node.value()
    return _truncated(node, x) if x.type.is_float else x


def _scaled_function(function: UnaryFunction, by: float) -> AtenOperator:
    """Return the function of an operator that is another one, times a number."""
    return lambda node: node.times(node.unary(function, node.typed(node.value(), node.dtype())), by)


def log_of_more_than_1(node: AtenNode) -> Value:
    """aten.log1p: exact near 0, by the rounding errors of 1 + x."""
    x = node.typed(node.value(), node.dtype())
    more = node.plus(x, 1.0)
    rounded = node.minus(more, 1.0)
    is_small = node.binary(BinaryFunction.EQUAL, rounded, 0.0)
    same = node.binary(BinaryFunction.EQUAL, rounded, x)  # infinity, too
    log = node.unary(UnaryFunction.LOG, more)
    return node.add(
        Where(), is_small, x, node.add(Where(), same, log, node.times(log, node.over(x, rounded)))
    )


def exp_less_1(node: AtenNode) -> Value:
    """aten.expm1: exact near 0, by the rounding errors of exp(x)."""
    x = node.typed(node.value(), node.dtype())
    exp = node.unary(UnaryFunction.EXP, x)
    less = node.minus(exp, 1.0)
    corrected = node.times(less, node.over(x, node.unary(UnaryFunction.LOG, exp)))
    is_tiny = node.binary(BinaryFunction.EQUAL, less, 0.0)
    is_near = node.binary(BinaryFunction.LESS, node.magnitude(x), 0.5)
    return node.add(Where(), is_tiny, x, node.add(Where(), is_near, corrected, less))


def _third(function: BinaryFunction) -> AtenOperator:
    """Return the function of aten.addcmul or addcdiv: self + value * (tensor1 op tensor2)."""

    def add(node: AtenNode) -> Value:
        dtype = node.dtype()
        x, a, b = (node.typed(node.get(name), dtype) for name in ("self", "tensor1", "tensor2"))
        return node.plus(x, node.times(node.binary(function, a, b), node.get("value", 1)))

    return add


def interpolate(node: AtenNode) -> Value:
    """aten.lerp: self + weight * (end - self)."""
    dtype = node.dtype()
    x, end, weight = (node.typed(node.get(name), dtype) for name in ("self", "end", "weight"))
    return node.plus(x, node.times(node.minus(end, x), weight))


def square(node: AtenNode) -> Value:
    """aten.square."""
    x = node.typed(node.value(), node.dtype())
    return node.times(x, x)


def is_finite(node: AtenNode) -> Value:
    """aten.isfinite."""
    x = node.value()
    either = [node.unary(one, x) for one in (UnaryFunction.IS_NAN, UnaryFunction.IS_INF)]
    return node.unary(UnaryFunction.NOT, node.binary(BinaryFunction.OR, *either))


def _comparison(function: BinaryFunction) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        a, b = node.value(), node.get("other")
        dtype = promoted(a, b)
        return node.binary(function, node.typed(a, dtype), node.typed(b, dtype))

    return add


def _logical(function: BinaryFunction) -> AtenOperator:
    """Return the function of an operator on truth values."""

    def add(node: AtenNode) -> Value:
        a, b = (node.typed(node.get(name), np.dtype(np.bool_)) for name in ("self", "other"))
        return node.binary(function, a, b)

    return add


def _bitwise(logical: BinaryFunction, function: BinaryFunction) -> AtenOperator:
    """Return the function of an operator on bits, which are truth values for bool."""
    return lambda node: node.arithmetic(
        logical if node.dtype() == np.bool_ else function, node.get("self"), node.get("other")
    )


def unequal(node: AtenNode) -> Value:
    """aten.ne."""
    equal = _comparison(BinaryFunction.EQUAL)(node)
    assert isinstance(equal, Value)
    return node.unary(UnaryFunction.NOT, equal)


def where(node: AtenNode) -> Value:
    """aten.where."""
    dtype = node.dtype()
    a, b = (node.typed(node.get(name), dtype) for name in ("self", "other"))
    return node.add(Where(), node.value("condition"), a, b)


def masked_fill(node: AtenNode) -> Value:
    """aten.masked_fill."""
    x = node.value()
    return node.add(Where(), node.value("mask"), node.typed(node.get("value"), x.dtype), x)


def convert(node: AtenNode) -> Value:
    """aten.to, _to_copy, type_as: to the type that the result has."""
    return node.cast(node.value(), node.dtype())


def not_(node: AtenNode) -> Value:
    """aten.logical_not."""
    return node.unary(UnaryFunction.NOT, node.cast(node.value(), np.bool_))


def invert(node: AtenNode) -> Value:
    """aten.bitwise_not: of bits, or of truth values."""
    x = node.value()
    is_truth = x.dtype == np.bool_
    return node.unary(UnaryFunction.NOT if is_truth else UnaryFunction.BITWISE_NOT, x)


def _aliases(operators: AtenOperators) -> AtenOperators:
    """Return the other names of operators."""
    names = {
        "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
        "arctan": "atan", "arctanh": "atanh", "divide": "div", "fix": "trunc", "greater": "gt",
        "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul",
        "negative": "neg", "not_equal": "ne", "special_erf": "erf", "special_expm1": "expm1",
        "special_log1p": "log1p", "subtract": "sub", "true_divide": "div",
        "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
    }  # fmt: skip
    return {name: operators[own] for name, own in names.items()}


_OPERATORS: AtenOperators = {
    "neg": _unary(UnaryFunction.NEG),
    "exp": _unary(UnaryFunction.EXP),
    "log": _unary(UnaryFunction.LOG),
    "sqrt": _unary(UnaryFunction.SQRT),
    "rsqrt": rsqrt,
    "reciprocal": _unary(UnaryFunction.RECIPROCAL),
    "erf": _unary(UnaryFunction.ERF),
    **{
        one.value: _unary(one)
        for one in (
            *(UnaryFunction.SIN, UnaryFunction.COS, UnaryFunction.TAN, UnaryFunction.ASIN),
            *(UnaryFunction.ACOS, UnaryFunction.ATAN, UnaryFunction.SINH, UnaryFunction.COSH),
            *(UnaryFunction.ASINH, UnaryFunction.ACOSH, UnaryFunction.ATANH),
        )
    },
    "log1p": log_of_more_than_1,
    "expm1": exp_less_1,
    "log2": _scaled_function(UnaryFunction.LOG, 1 / math.log(2)),
    "log10": _scaled_function(UnaryFunction.LOG, 1 / math.log(10)),
    "square": square,
    "isnan": lambda node: node.unary(UnaryFunction.IS_NAN, node.value()),
    "isinf": lambda node: node.unary(UnaryFunction.IS_INF, node.value()),
    "isfinite": is_finite,
    "trunc": truncate,
    "bitwise_not": invert,
    "floor": _unary(UnaryFunction.FLOOR),
    "ceil": _unary(UnaryFunction.CEIL),
    "round": round_,
    "sign": _unary(UnaryFunction.SIGN),
    "logical_not": not_,
    "add": _arithmetic(BinaryFunction.ADD),
    "sub": _arithmetic(BinaryFunction.SUB),
    "rsub": _arithmetic(BinaryFunction.SUB, swapped=True),
    "mul": _arithmetic(BinaryFunction.MUL),
    "div": divide,
    "floor_divide": divide_down,
    "remainder": _arithmetic(BinaryFunction.MOD),
    "fmod": _arithmetic(BinaryFunction.FMOD),
    "addcmul": _third(BinaryFunction.MUL),
    "addcdiv": _third(BinaryFunction.DIV),
    "lerp": interpolate,
    "pow": _arithmetic(BinaryFunction.POW),
    "maximum": _arithmetic(BinaryFunction.MAX),
    "minimum": _arithmetic(BinaryFunction.MIN),
    "eq": _comparison(BinaryFunction.EQUAL),
    "ne": unequal,
    "lt": _comparison(BinaryFunction.LESS),
    "le": _comparison(BinaryFunction.LESS_EQUAL),
    "gt": _comparison(BinaryFunction.GREATER),
    "ge": _comparison(BinaryFunction.GREATER_EQUAL),
    "logical_and": _logical(BinaryFunction.AND),
    "logical_or": _logical(BinaryFunction.OR),
    "logical_xor": _logical(BinaryFunction.XOR),
    "bitwise_and": _bitwise(BinaryFunction.AND, BinaryFunction.BITWISE_AND),
    "bitwise_or": _bitwise(BinaryFunction.OR, BinaryFunction.BITWISE_OR),
    "bitwise_xor": _bitwise(BinaryFunction.XOR, BinaryFunction.BITWISE_XOR),
    "where": where,
    "masked_fill": masked_fill,
    "to": convert,
    "_to_copy": convert,
    "type_as": convert,
}

OPERATORS: AtenOperators = {**_OPERATORS, **_aliases(_OPERATORS)}
