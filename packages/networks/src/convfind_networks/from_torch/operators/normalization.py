"""Normalisation and softmax."""

from __future__ import annotations

import math

import numpy as np

from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import BatchNorm, GroupNorm, LayerNorm, RMSNorm, Softmax


def _vector(node: AtenNode, name: str, shape: tuple[int, ...], usual: float) -> Value:
    """Return a scale or bias, or one that changes nothing."""
    given = node.optional(name)
    return node.const(np.full(shape, usual), like=node.value()) if given is None else given


def batch_norm(node: AtenNode) -> tuple[Value, ...]:
    """aten.batch_norm in eval mode, _native_batch_norm_legit_no_training."""
    x = node.value("input")
    if node.get("training", False):
        raise NotSupported("statistics of the batch; call eval() before the export")
    shape = x.shape[1:2]
    parameters = [_vector(node, "weight", shape, 1), _vector(node, "bias", shape, 0)]
    parameters += [node.value("running_mean"), node.value("running_var")]
    same = [node.cast(one, x.dtype) for one in parameters]
    return (node.add(BatchNorm(float(node.get("eps", 1e-5))), x, *same),)


def batch_norm_by_batch(node: AtenNode) -> tuple[Value, ...]:
    """aten._native_batch_norm_legit without known statistics: those of the batch."""
    x = node.value("input")
    batch, channels, *sizes = x.shape
    turn = (1, 0, *range(2, x.type.rank))
    shape = (1, channels, batch * math.prod(sizes))
    scale, bias = _vector(node, "weight", (channels,), 1), _vector(node, "bias", (channels,), 0)
    op = GroupNorm(channels, float(node.get("eps", 1e-5)))
    flat = node.reshape(node.transpose(x, *turn), *shape)
    y = node.reshape(node.add(op, flat, scale, bias), channels, batch, *sizes)
    return (node.transpose(y, *turn),)


def group_norm(node: AtenNode) -> tuple[Value, ...]:
    """aten.group_norm, native_group_norm."""
    x = node.value("input")
    groups = int(node.get("num_groups", 0) or node.get("group"))
    shape = x.shape[1:2]
    scale, bias = _vector(node, "weight", shape, 1), _vector(node, "bias", shape, 0)
    return (node.add(GroupNorm(groups, float(node.get("eps", 1e-5))), x, scale, bias),)


def instance_norm(node: AtenNode) -> Value:
    """aten.instance_norm with statistics of the image."""
    x = node.value("input")
    if not node.get("use_input_stats", True):
        (result,) = batch_norm(node)
        return result
    shape = x.shape[1:2]
    scale, bias = _vector(node, "weight", shape, 1), _vector(node, "bias", shape, 0)
    return node.add(GroupNorm(x.shape[1], float(node.get("eps", 1e-5))), x, scale, bias)


def layer_norm(node: AtenNode) -> tuple[Value, ...]:
    """aten.layer_norm, native_layer_norm."""
    x = node.value("input")
    shape = tuple(node.get("normalized_shape"))
    scale = _vector(node, "weight", shape, 1)
    bias = node.optional("bias")
    op = LayerNorm(x.type.rank - len(shape), float(node.get("eps", 1e-5)))
    return (node.add(op, *filter(None, (x, scale, bias))),)


def rms_norm(node: AtenNode) -> Value:
    """aten.rms_norm; its usual epsilon is that of the type in which squares are added up."""
    x = node.value("input")
    shape = tuple(node.get("normalized_shape"))
    epsilon = node.get("eps")
    if epsilon is None:
        sums = np.float64 if x.dtype == np.float64 else np.float32
        epsilon = float(np.finfo(sums).eps)
    return node.add(
        RMSNorm(x.type.rank - len(shape), epsilon), x, _vector(node, "weight", shape, 1)
    )


def _softmax(node: AtenNode, *, log: bool) -> Value:
    x = node.typed(node.value(), node.dtype())
    return node.add(Softmax(node.axis("dim", x.type.rank), log), x)


def softmax(node: AtenNode) -> Value:
    """aten.softmax, _softmax."""
    return _softmax(node, log=False)


def log_softmax(node: AtenNode) -> Value:
    """aten.log_softmax, _log_softmax."""
    return _softmax(node, log=True)


OPERATORS: AtenOperators = {
    "batch_norm": batch_norm,
    "_native_batch_norm_legit": batch_norm_by_batch,
    "_native_batch_norm_legit_no_training": batch_norm,
    "group_norm": group_norm,
    "native_group_norm": group_norm,
    "instance_norm": instance_norm,
    "layer_norm": layer_norm,
    "native_layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "softmax": softmax,
    "_softmax": softmax,
    "log_softmax": log_softmax,
    "_log_softmax": log_softmax,
}
