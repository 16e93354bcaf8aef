"""Activations, and bounds of elements."""

from __future__ import annotations

import math

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Binary,
    BinaryFunction,
    Split,
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
    """aten.softplus; beyond its threshold it is x, which from 20 on rounds to the same."""
    beta, edge = float(node.get("beta", 1.0)), float(node.get("threshold", 20.0))
    x = node.times(node.value(), beta)
    soft = node.over(node.add(Activate(Activation(ActivationKind.SOFTPLUS)), x), beta)
    if edge >= 20:
        return soft
    return node.add(Where(), node.binary(BinaryFunction.GREATER, x, edge), node.value(), soft)


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


def clamp(node: AtenNode) -> Value:
    """aten.clamp by numbers or by tensors."""
    x = node.typed(node.value(), node.dtype())
    low, high = node.get("min"), node.get("max")
    if not isinstance(low, Value) and not isinstance(high, Value):
        bounds = (-math.inf if low is None else low, math.inf if high is None else high)
        return node.add(Activate(Activation(ActivationKind.CLIP, bounds)), x)
    if low is not None:
        x = node.binary(BinaryFunction.MAX, x, node.typed(low, x.dtype))
    if high is not None:
        x = node.binary(BinaryFunction.MIN, x, node.typed(high, x.dtype))
    return x


def threshold(node: AtenNode) -> Value:
    """aten.threshold: another number for what is not above one."""
    x = node.value()
    not_above = node.binary(BinaryFunction.LESS_EQUAL, x, node.get("threshold"))
    return node.add(Where(), not_above, node.operand(node.get("value"), x), x)


def log_sigmoid(node: AtenNode) -> Value:
    """aten.log_sigmoid: the softplus of -x, negative."""
    soft = Activate(Activation(ActivationKind.SOFTPLUS))
    negative = node.add(soft, node.unary(UnaryFunction.NEG, node.value()))
    return node.unary(UnaryFunction.NEG, negative)


def _shrink(*, soft: bool) -> AtenOperator:
    """Return the function of aten.hardshrink or softshrink: 0 within a distance from 0."""

    def add(node: AtenNode) -> Value:
        x, edge = node.value(), float(node.get("lambd", 0.5))
        near = node.add(Activate(Activation(ActivationKind.CLIP, (-edge, edge))), x)
        if soft:
            return node.minus(x, near)
        within = node.binary(BinaryFunction.EQUAL, near, x)
        return node.add(Where(), within, node.const(0, like=x), x)

    return add


OPERATORS: AtenOperators = {
    "relu": _activation(ActivationKind.RELU),
    "relu6": lambda node: node.add(Activate(Activation(ActivationKind.CLIP, (0, 6))), node.value()),
    "hardtanh": _activation(ActivationKind.CLIP, ("min_val", -1.0), ("max_val", 1.0)),
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp,
    "leaky_relu": _activation(ActivationKind.LEAKY_RELU, ("negative_slope", 0.01)),
    "elu": elu,
    "selu": _activation(
        ActivationKind.SELU, ("alpha", 1.6732632423543772), ("scale", 1.0507009873554805)
    ),
    "celu": _activation(ActivationKind.CELU, ("alpha", 1.0)),
    "sigmoid": _activation(ActivationKind.SIGMOID),
    "special_expit": _activation(ActivationKind.SIGMOID),
    "tanh": _activation(ActivationKind.TANH),
    "silu": _activation(ActivationKind.SILU),
    "hardswish": _activation(ActivationKind.HARD_SWISH),
    "hardsigmoid": _activation(ActivationKind.HARD_SIGMOID),
    "gelu": gelu,
    "mish": _activation(ActivationKind.MISH),
    "softplus": softplus,
    "abs": _activation(ActivationKind.ABS),
    "absolute": _activation(ActivationKind.ABS),
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "glu": glu,
    "threshold": threshold,
    "log_sigmoid": log_sigmoid,
    "hardshrink": _shrink(soft=False),
    "softshrink": _shrink(soft=True),
}
