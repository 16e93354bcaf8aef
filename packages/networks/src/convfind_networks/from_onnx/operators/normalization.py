"""Normalisation and softmax."""

from __future__ import annotations

import math

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import (
    ArgReduce,
    BatchNorm,
    BinaryFunction,
    GroupNorm,
    LayerNorm,
    LocalResponseNorm,
    ReduceFunction,
    RMSNorm,
    Softmax,
    UnaryFunction,
)


def batch_norm(node: OnnxNode) -> Value:
    """BatchNormalization with known statistics."""
    if node.integer("training_mode", 0):
        raise NotSupported("training_mode: statistics of the batch are for training")
    if node.opset < 7 and not node.integer("is_test", 0):
        raise NotSupported("is_test=0: statistics of the batch are for training")
    if node.opset < 9 and not node.integer("spatial", 1):
        raise NotSupported("spatial=0: statistics for each element")
    node.only_outputs(1)
    x, *parameters = node.values()
    same = [node.cast(one, x.dtype) for one in parameters]
    return node.add(BatchNorm(node.real("epsilon", 1e-5)), x, *same)


def instance_norm(node: OnnxNode) -> Value:
    """InstanceNormalization: groups of one channel."""
    x, scale, bias = node.values()
    return node.add(GroupNorm(x.shape[1], node.real("epsilon", 1e-5)), x, scale, bias)


def group_norm(node: OnnxNode) -> Value:
    """GroupNormalization; scale and bias were one number a group before opset 21."""
    x, scale, bias = node.values()
    groups = node.integer("num_groups", 1)
    if node.opset < 21:
        each = np.repeat(np.arange(groups), x.shape[1] // groups)
        scale, bias = (
            node.const(np.asarray(node.array(index, name))[each])
            for index, name in ((1, "scale"), (2, "bias"))
        )
    return node.add(GroupNorm(groups, node.real("epsilon", 1e-5)), x, scale, bias)


def layer_norm(node: OnnxNode) -> tuple[Value, ...]:
    """LayerNormalization, with its statistics if somebody reads them."""
    x, *parameters = node.values()
    axis = axis_of(node.integer("axis", -1), x.type.rank)
    epsilon = node.real("epsilon", 1e-5)
    y = node.add(LayerNorm(axis, epsilon), x, *parameters)
    if not (node.has_output(1) or node.has_output(2)):
        return (y,)
    axes = range(axis, x.type.rank)
    mean = node.reduce(ReduceFunction.MEAN, x, *axes)
    centred = node.minus(x, mean)
    variance = node.reduce(ReduceFunction.MEAN, node.times(centred, centred), *axes)
    deviation = node.unary(UnaryFunction.SQRT, node.plus(variance, epsilon))
    return y, mean, node.unary(UnaryFunction.RECIPROCAL, deviation)


def rms_norm(node: OnnxNode) -> Value:
    """RMSNormalization."""
    x, scale = node.values()
    axis = axis_of(node.integer("axis", -1), x.type.rank)
    return node.add(RMSNorm(axis, node.real("epsilon", 1e-5)), x, node.cast(scale, x.dtype))


def local_response_norm(node: OnnxNode) -> Value:
    """LRN."""
    op = LocalResponseNorm(
        node.integer("size", 1),
        node.real("alpha", 1e-4),
        node.real("beta", 0.75),
        node.real("bias", 1.0),
    )
    return node.add(op, node.input(0))


def lp_norm(node: OnnxNode) -> Value:
    """LpNormalization."""
    x = node.input(0)
    function = {1: ReduceFunction.L1, 2: ReduceFunction.L2}[node.integer("p", 2)]
    norm = node.reduce(function, x, node.integer("axis", -1))
    zero = node.binary(BinaryFunction.EQUAL, norm, 0.0)
    safe = node.plus(norm, node.cast(zero, x.dtype))  # nothing but zeros stays so
    return node.over(x, safe)


def mean_variance_norm(node: OnnxNode) -> Value:
    """MeanVarianceNormalization."""
    x = node.input(0)
    axes = node.integers("axes", (0, 2, 3))
    centred = node.minus(x, node.reduce(ReduceFunction.MEAN, x, *axes))
    variance = node.reduce(ReduceFunction.MEAN, node.times(centred, centred), *axes)
    return node.over(centred, node.plus(node.unary(UnaryFunction.SQRT, variance), 1e-9))


def softmax(node: OnnxNode) -> Value:
    """Softmax, LogSoftmax; before opset 13 over all dimensions from an axis on."""
    x = node.input(0)
    log = node.proto.op_type == "LogSoftmax"
    if node.opset >= 13:
        return node.add(Softmax(axis_of(node.integer("axis", -1), x.type.rank), log), x)
    flat = _flattened(node, x)
    return node.reshape(node.add(Softmax(1, log), flat), *x.shape)


def hardmax(node: OnnxNode) -> Value:
    """Hardmax: 1 where the largest element is, the first of them."""
    x = node.input(0)
    if node.opset < 13:
        flat = _flattened(node, x)
        return node.reshape(_one_hot(node, flat, 1), *x.shape)
    return _one_hot(node, x, axis_of(node.integer("axis", -1), x.type.rank))


def _one_hot(node: OnnxNode, x: Value, axis: int) -> Value:
    place = node.add(ArgReduce(True, axis), x)
    places = np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.type.rank - axis - 1))
    return node.cast(node.binary(BinaryFunction.EQUAL, place, node.const(places)), x.dtype)


def _flattened(node: OnnxNode, x: Value) -> Value:
    """Return a matrix whose rows are the dimensions from the attribute's axis on."""
    axis = axis_of(node.integer("axis", 1), x.type.rank)
    return node.reshape(x, math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


OPERATORS: OnnxOperators = {
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "LRN": local_response_norm,
    "LpNormalization": lp_norm,
    "MeanVarianceNormalization": mean_variance_norm,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "Hardmax": hardmax,
}
