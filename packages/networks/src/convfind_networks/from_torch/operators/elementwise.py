"""Activations, arithmetic, comparisons and reductions."""

from __future__ import annotations

import math

import numpy as np

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    ArgReduce,
    Binary,
    BinaryFunction,
    CumulativeSum,
    Reduce,
    ReduceFunction,
    Split,
    TopK,
    UnaryFunction,
    Where,
)


def _activation(kind: ActivationKind, *arguments: tuple[str, float]) -> AtenOperator:
    """Return the function of an operator whose arguments are the activation's numbers."""

    def add(node: AtenNode) -> Value:
        numbers = tuple(float(node.get(name, usual)) for name, usual in arguments)
        return node.add(Activate(Activation(kind, numbers)), node.value())

    return add


def elu(node: AtenNode) -> Value:
    """aten.elu; SELU is one with other numbers."""
    alpha, scale = float(node.get("alpha", 1.0)), float(node.get("scale", 1.0))
    if node.get("input_scale", 1.0) != 1:
        raise NotSupported("input_scale")
    if scale == 1:
        return node.add(Activate(Activation(ActivationKind.ELU, (alpha,))), node.value())
    return node.add(Activate(Activation(ActivationKind.SELU, (alpha, scale))), node.value())


def softplus(node: AtenNode) -> Value:
    """aten.softplus; beyond its threshold it is x, which rounds to the same."""
    beta = float(node.get("beta", 1.0))
    x = node.times(node.value(), beta)
    return node.over(node.add(Activate(Activation(ActivationKind.SOFTPLUS)), x), beta)


def gelu(node: AtenNode) -> Value:
    """aten.gelu, exact or by tanh."""
    tanh = node.get("approximate", "none") == "tanh"
    kind = ActivationKind.GELU_TANH if tanh else ActivationKind.GELU
    return node.add(Activate(Activation(kind)), node.value())


def prelu(node: AtenNode) -> Value:
    """aten.prelu: one slope, or one for each channel."""
    x, slope = node.value(), node.value("weight")
    slope = node.reshape(slope, slope.type.elements, *(1,) * max(x.type.rank - 2, 0))
    return node.add(Binary(BinaryFunction.PRELU), x, slope)


def glu(node: AtenNode) -> Value:
    """aten.glu: one half by the sigmoid of the other."""
    x = node.value()
    axis = node.axis("dim", x.type.rank, -1)
    half = x.shape[axis] // 2
    a, b = node.add_all(Split(axis, (half, half)), x)
    return node.times(a, node.add(Activate(Activation(ActivationKind.SIGMOID)), b))


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
    if mode is None or (mode == "trunc" and not quotient.type.is_float):
        return quotient
    if mode == "floor" and quotient.type.is_float:
        return node.unary(UnaryFunction.FLOOR, quotient)
    raise NotSupported(f"rounding_mode {mode} of {quotient.dtype.name}")


def _comparison(function: BinaryFunction) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        a, b = node.value(), node.get("other")
        if isinstance(b, Value) and b.dtype != a.dtype:
            raise NotSupported(f"a comparison of {a.type} with {b.type}")
        return node.binary(function, a, node.typed(b, a.dtype))

    return add


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


def _reduction(function: ReduceFunction) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        x = node.typed(node.value(), node.dtype())
        op = Reduce(function, node.axes("dim", x.type.rank), bool(node.get("keepdim", False)))
        return node.add(op, x)

    return add


def norm(node: AtenNode) -> Value:
    """aten.linalg_vector_norm of order 1 or 2."""
    x = node.value()
    order = float(node.get("ord", 2))
    if order not in (1, 2):
        raise NotSupported(f"order {order}")
    function = ReduceFunction.L1 if order == 1 else ReduceFunction.L2
    axes = node.axes("dim", x.type.rank)
    return node.add(Reduce(function, axes, bool(node.get("keepdim", False))), x)


def variance(node: AtenNode) -> Value:
    """aten.var."""
    x = node.value()
    axes = node.axes("dim", x.type.rank)
    count = math.prod(x.shape[axis] for axis in axes)
    correction = node.get("correction", 0 if node.get("unbiased", True) is False else 1)
    centred = node.minus(x, node.reduce(ReduceFunction.MEAN, x, *axes))
    squares = node.times(centred, centred)
    keep = bool(node.get("keepdim", False))
    total = node.reduce(ReduceFunction.SUM, squares, *axes, keepdims=keep)
    return node.over(total, float(count - correction))


def _arg(*, largest: bool) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        x = node.value()
        if node.get("dim") is None:
            x = node.reshape(x, x.type.elements)
        op = ArgReduce(largest, node.axis("dim", x.type.rank), bool(node.get("keepdim", False)))
        return node.add(op, x)

    return add


def _extreme(*, largest: bool) -> AtenOperator:
    """Return the function of aten.max or min: of all elements, along an axis, or of two tensors."""

    def add(node: AtenNode) -> Value | tuple[Value, ...]:
        x = node.value()
        if (other := node.optional("other")) is not None:
            return node.arithmetic(BinaryFunction.MAX if largest else BinaryFunction.MIN, x, other)
        function = ReduceFunction.MAX if largest else ReduceFunction.MIN
        if node.get("dim") is None:
            return node.reduce(function, x, *range(x.type.rank), keepdims=False)
        axis, kept = node.axis("dim", x.type.rank), bool(node.get("keepdim", False))
        places = node.add(ArgReduce(largest, axis, kept), x)
        return node.reduce(function, x, axis, keepdims=kept), places

    return add


def cumulative_sum(node: AtenNode) -> Value:
    """aten.cumsum."""
    x = node.typed(node.value(), node.dtype())
    return node.add(CumulativeSum(node.axis("dim", x.type.rank)), x)


def top_k(node: AtenNode) -> tuple[Value, ...]:
    """aten.topk."""
    x = node.value()
    op = TopK(
        int(node.get("k")), node.axis("dim", x.type.rank, -1), bool(node.get("largest", True))
    )
    return node.add_all(op, x)


def convert(node: AtenNode) -> Value:
    """aten.to, _to_copy, type_as: to the type that the result has."""
    return node.cast(node.value(), node.dtype())


def clamp(node: AtenNode) -> Value:
    """aten.clamp by numbers or by tensors."""
    x = node.value()
    low, high = node.get("min"), node.get("max")
    if not isinstance(low, Value) and not isinstance(high, Value):
        bounds = (-math.inf if low is None else low, math.inf if high is None else high)
        return node.add(Activate(Activation(ActivationKind.CLIP, bounds)), x)
    if low is not None:
        x = node.binary(BinaryFunction.MAX, x, node.typed(low, x.dtype))
    if high is not None:
        x = node.binary(BinaryFunction.MIN, x, node.typed(high, x.dtype))
    return x


def not_(node: AtenNode) -> Value:
    """aten.logical_not, bitwise_not of truth values."""
    return node.unary(UnaryFunction.NOT, node.cast(node.value(), np.bool_))


OPERATORS: AtenOperators = {
    "relu": _activation(ActivationKind.RELU),
    "relu6": lambda node: node.add(Activate(Activation(ActivationKind.CLIP, (0, 6))), node.value()),
    "hardtanh": _activation(ActivationKind.CLIP, ("min_val", -1.0), ("max_val", 1.0)),
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp,
    "leaky_relu": _activation(ActivationKind.LEAKY_RELU, ("negative_slope", 0.01)),
    "elu": elu,
    "selu": _activation(
        ActivationKind.SELU, ("alpha", 1.6732632423543772), ("scale", 1.0507009873554805)
    ),
    "celu": _activation(ActivationKind.CELU, ("alpha", 1.0)),
    "sigmoid": _activation(ActivationKind.SIGMOID),
    "tanh": _activation(ActivationKind.TANH),
    "silu": _activation(ActivationKind.SILU),
    "hardswish": _activation(ActivationKind.HARD_SWISH),
    "hardsigmoid": _activation(ActivationKind.HARD_SIGMOID),
    "gelu": gelu,
    "mish": _activation(ActivationKind.MISH),
    "softplus": softplus,
    "abs": _activation(ActivationKind.ABS),
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "glu": glu,
    "neg": _unary(UnaryFunction.NEG),
    "exp": _unary(UnaryFunction.EXP),
    "log": _unary(UnaryFunction.LOG),
    "sqrt": _unary(UnaryFunction.SQRT),
    "rsqrt": rsqrt,
    "reciprocal": _unary(UnaryFunction.RECIPROCAL),
    "erf": _unary(UnaryFunction.ERF),
    "sin": _unary(UnaryFunction.SIN),
    "cos": _unary(UnaryFunction.COS),
    "floor": _unary(UnaryFunction.FLOOR),
    "ceil": _unary(UnaryFunction.CEIL),
    "round": _unary(UnaryFunction.ROUND),
    "sign": _unary(UnaryFunction.SIGN),
    "logical_not": not_,
    "add": _arithmetic(BinaryFunction.ADD),
    "sub": _arithmetic(BinaryFunction.SUB),
    "rsub": _arithmetic(BinaryFunction.SUB, swapped=True),
    "mul": _arithmetic(BinaryFunction.MUL),
    "div": divide,
    "pow": _arithmetic(BinaryFunction.POW),
    "maximum": _arithmetic(BinaryFunction.MAX),
    "minimum": _arithmetic(BinaryFunction.MIN),
    "eq": _comparison(BinaryFunction.EQUAL),
    "ne": unequal,
    "lt": _comparison(BinaryFunction.LESS),
    "le": _comparison(BinaryFunction.LESS_EQUAL),
    "gt": _comparison(BinaryFunction.GREATER),
    "ge": _comparison(BinaryFunction.GREATER_EQUAL),
    "logical_and": _comparison(BinaryFunction.AND),
    "logical_or": _comparison(BinaryFunction.OR),
    "where": where,
    "masked_fill": masked_fill,
    "mean": _reduction(ReduceFunction.MEAN),
    "sum": _reduction(ReduceFunction.SUM),
    "amax": _reduction(ReduceFunction.MAX),
    "amin": _reduction(ReduceFunction.MIN),
    "logsumexp": _reduction(ReduceFunction.LOG_SUM_EXP),
    "linalg_vector_norm": norm,
    "var": variance,
    "argmax": _arg(largest=True),
    "max": _extreme(largest=True),
    "min": _extreme(largest=False),
    "argmin": _arg(largest=False),
    "cumsum": cumulative_sum,
    "topk": top_k,
    "to": convert,
    "_to_copy": convert,
    "type_as": convert,
}
