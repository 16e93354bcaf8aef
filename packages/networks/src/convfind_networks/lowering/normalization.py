"""Normalisation with statistics of the tensor itself, softmax, and reductions."""

from __future__ import annotations

from typing import Any

from convfind_networks.graph import Node
from convfind_networks.lowering.activation import kernel_activation
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.lowering.operator import operator
from convfind_networks.ops import (
    GlobalPool,
    GroupNorm,
    LayerNorm,
    PoolKind,
    Reduce,
    RMSNorm,
    Softmax,
)


def softmax(around: Surroundings, node: Node) -> Call:
    """Lower exponentials divided by their sum."""
    op = node.op
    assert isinstance(op, Softmax)
    return _normalized(around, node, "softmax", axis=op.axis, log=op.log)


def layer_norm(around: Surroundings, node: Node) -> Call:
    """Lower a layer norm."""
    op = node.op
    assert isinstance(op, LayerNorm)
    names = ("scale", "bias")
    shapes = {
        name: around.type(value).shape for name, value in zip(names, node.inputs[1:], strict=False)
    }
    return _normalized(around, node, "layer-norm", axis=op.axis, epsilon=op.epsilon, **shapes)


def rms_norm(around: Surroundings, node: Node) -> Call:
    """Lower a norm without mean."""
    op = node.op
    assert isinstance(op, RMSNorm)
    scale = around.type(node.inputs[1]).shape
    return _normalized(around, node, "rms-norm", axis=op.axis, epsilon=op.epsilon, scale=scale)


def group_norm(around: Surroundings, node: Node) -> Call:
    """Lower a group norm or an instance norm."""
    op = node.op
    assert isinstance(op, GroupNorm)
    how: dict[str, Any] = {"groups": op.groups, "epsilon": op.epsilon}
    if op.activation is not None:
        how["activation"] = kernel_activation(op.activation)
    return _normalized(around, node, "group-norm", **how)


def reduce(around: Surroundings, node: Node) -> Call:
    """Lower a reduction along axes."""
    op = node.op
    assert isinstance(op, Reduce)
    how = {"function": op.function.value, "axes": op.axes, "keepdims": op.keepdims}
    return _normalized(around, node, "reduction", **how)


def global_pool(around: Surroundings, node: Node) -> Call:
    """Lower a pooling whose only window is the image."""
    op = node.op
    assert isinstance(op, GlobalPool)
    axes = tuple(range(2, around.type(node.output).rank))
    function = "max" if op.pool is PoolKind.MAX else "mean"
    return _normalized(around, node, "reduction", function=function, axes=axes)


def _normalized(around: Surroundings, node: Node, kind: str, **fields: object) -> Call:
    names = ("x", "scale", "bias")
    operands = {**dict(zip(names, node.inputs, strict=False)), "y": node.output}
    shape = around.type(node.inputs[0]).shape
    return operator(around, node, kind, operands, x=shape, **fields)
