"""Functions of elements: activations, arithmetic, comparisons, choices, casts, batch norms."""

from __future__ import annotations

from typing import Any

from convfind_networks.graph import Node
from convfind_networks.lowering.activation import kernel_activation
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.lowering.operator import operator
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BatchNorm,
    Binary,
    Cast,
    Rotary,
    Unary,
    Where,
)

#: Activations that are functions of their own where no convolution is before them.
_FUNCTIONS = {
    ActivationKind.CLIP: "bounded",  # also whole numbers, and without a bound on one side
    ActivationKind.ABS: "magnitude",
    ActivationKind.THRESHOLDED_RELU: "thresholded-relu",
    ActivationKind.SELU: "selu",
    ActivationKind.CELU: "celu",
    ActivationKind.SILU: "swish",
    ActivationKind.SOFTSIGN: "softsign",
}


def activate(around: Surroundings, node: Node) -> Call:
    """Lower an activation that is no part of an epilogue."""
    op = node.op
    assert isinstance(op, Activate)
    kind, numbers = op.activation.kind, op.activation.numbers
    if kind in _FUNCTIONS:
        return _of_one(around, node, "unary", function=_FUNCTIONS[kind], numbers=numbers)
    if kind is ActivationKind.RELU and not around.type(node.output).is_float:
        bounds = (0.0, float("inf"))
        return _of_one(around, node, "unary", function="bounded", numbers=bounds)
    return _of_one(around, node, "activation", activation=kernel_activation(op.activation))


def unary(around: Surroundings, node: Node) -> Call:
    """Lower a function of one element."""
    op = node.op
    assert isinstance(op, Unary)
    return _of_one(around, node, "unary", function=op.function.value)


def binary(around: Surroundings, node: Node) -> Call:
    """Lower a function of two elements."""
    op = node.op
    assert isinstance(op, Binary)
    a, b = node.inputs
    shapes: dict[str, Any] = {"a": around.type(a).shape, "b": around.type(b).shape}
    operands = {"a": a, "b": b, "y": node.output}
    how = {"function": op.function.value, **_activation(op.activation), "activates": op.activates}
    return operator(around, node, "binary", operands, **how, **shapes)


def where(around: Surroundings, node: Node) -> Call:
    """Lower a choice between two elements."""
    assert isinstance(node.op, Where)
    condition, a, b = node.inputs
    operands = {"a": a, "condition": condition, "b": b, "y": node.output}
    shapes: dict[str, Any] = {
        name: around.type(value).shape for name, value in operands.items() if name != "y"
    }
    return operator(around, node, "where", operands, **shapes)


def rotary(around: Surroundings, node: Node) -> Call:
    """Lower rows that are turned."""
    assert isinstance(node.op, Rotary)
    operands = dict(zip(("x", "cos", "sin"), node.inputs, strict=True))
    shapes: dict[str, Any] = {name: around.type(value).shape for name, value in operands.items()}
    return operator(around, node, "rotary", {**operands, "y": node.output}, **shapes)


def cast(around: Surroundings, node: Node) -> Call:
    """Lower a conversion to another element type."""
    op = node.op
    assert isinstance(op, Cast)
    return _of_one(around, node, "cast", to=op.dtype.name)


def batch_norm(around: Surroundings, node: Node) -> Call:
    """Lower a batch norm that no convolution could take in."""
    op = node.op
    assert isinstance(op, BatchNorm)
    names = ("x", "scale", "bias", "mean", "variance")
    operands = {**dict(zip(names, node.inputs, strict=False)), "y": node.output}
    shape = around.type(node.inputs[0]).shape
    has_statistics = len(node.inputs) == len(names)
    how: dict[str, Any] = {"epsilon": op.epsilon} if has_statistics else {"statistics": False}
    how |= _activation(op.activation)
    return operator(around, node, "batch-norm", operands, x=shape, **how)


def _activation(activation: Activation | None) -> dict[str, Any]:
    return {} if activation is None else {"activation": kernel_activation(activation)}


def _of_one(around: Surroundings, node: Node, kind: str, **fields: object) -> Call:
    x = node.inputs[0]
    operands = {"x": x, "y": node.output}
    return operator(around, node, kind, operands, x=around.type(x).shape, **fields)
