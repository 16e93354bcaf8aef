"""Activations, with the attributes that hold their numbers."""

from __future__ import annotations

import math

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperator, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Binary,
    BinaryFunction,
)


def _activation(kind: ActivationKind, *attributes: tuple[str, float]) -> OnnxOperator:
    """Return the function of an operator whose attributes are the activation's numbers."""

    def add(node: OnnxNode) -> Value:
        numbers = tuple(node.real(name, default) for name, default in attributes)
        return node.add(Activate(Activation(kind, numbers)), node.input(0))

    return add


def clip(node: OnnxNode) -> Value:
    """Clip: bounds are attributes before opset 11, inputs since; computed ones are allowed."""
    x = node.input(0)
    if node.opset < 11:
        bounds = node.real("min", -math.inf), node.real("max", math.inf)
        return node.add(Activate(Activation(ActivationKind.CLIP, bounds)), x)
    low, high = node.optional(1), node.optional(2)
    if all(one is None or one.is_constant for one in (low, high)):
        bounds = node.number(1, "min", -math.inf), node.number(2, "max", math.inf)
        return node.add(Activate(Activation(ActivationKind.CLIP, bounds)), x)
    if low is not None:
        x = node.binary(BinaryFunction.MAX, x, low)
    return x if high is None else node.binary(BinaryFunction.MIN, x, high)


def gelu(node: OnnxNode) -> Value:
    """Gelu, exact or by tanh."""
    tanh = node.word("approximate", "none") == "tanh"
    kind = ActivationKind.GELU_TANH if tanh else ActivationKind.GELU
    return node.add(Activate(Activation(kind)), node.input(0))


def prelu(node: OnnxNode) -> Value:
    """PRelu: slopes broadcast to x; before opset 7 a vector has one for each channel."""
    x, slope = node.input(0), node.input(1)
    if node.opset < 7 and slope.shape == x.shape[1:2]:
        slope = node.reshape(slope, *slope.shape, *(1,) * (x.type.rank - 2))
    return node.add(Binary(BinaryFunction.PRELU), x, slope)


OPERATORS: OnnxOperators = {
    "Relu": _activation(ActivationKind.RELU),
    "Clip": clip,
    "LeakyRelu": _activation(ActivationKind.LEAKY_RELU, ("alpha", 0.01)),
    "PRelu": prelu,
    "ThresholdedRelu": _activation(ActivationKind.THRESHOLDED_RELU, ("alpha", 1.0)),
    "Elu": _activation(ActivationKind.ELU, ("alpha", 1.0)),
    "Selu": _activation(
        ActivationKind.SELU,
        ("alpha", 1.67326319217681884765625),
        ("gamma", 1.05070102214813232421875),
    ),
    "Celu": _activation(ActivationKind.CELU, ("alpha", 1.0)),
    "Sigmoid": _activation(ActivationKind.SIGMOID),
    "HardSigmoid": _activation(ActivationKind.HARD_SIGMOID, ("alpha", 0.2), ("beta", 0.5)),
    "HardSwish": _activation(ActivationKind.HARD_SWISH),
    "Tanh": _activation(ActivationKind.TANH),
    "Swish": _activation(ActivationKind.SILU, ("alpha", 1.0)),
    "Gelu": gelu,
    "Mish": _activation(ActivationKind.MISH),
    "Softplus": _activation(ActivationKind.SOFTPLUS),
    "Softsign": _activation(ActivationKind.SOFTSIGN),
    "Abs": _activation(ActivationKind.ABS),
}
