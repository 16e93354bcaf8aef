"""Operators whose results are known when a model is read: constants, shapes, ranges."""

from __future__ import annotations

import math

import numpy as np
import onnx

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.from_onnx.tensors import read_tensor
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import Gather
from convfind_networks.tensor_type import LARGEST_TENSOR

#: Elements of the largest range.
LARGEST_RANGE = 2**28


def constant(node: OnnxNode) -> Value:
    """Constant, in any of its forms but texts."""
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if node.attribute(name) is not None:
            return node.const(np.asarray(node.attribute(name), dtype))
    tensor = node.attribute("value")
    if tensor is None or tensor.data_type == onnx.TensorProto.STRING:
        raise NotSupported("texts and sparse tensors")
    return node.const(read_tensor(tensor, None))


def constant_of_shape(node: OnnxNode) -> Value:
    """ConstantOfShape: one element seen many times, which takes no memory."""
    shape = tuple(int(size) for size in node.array(0, "shape").reshape(-1))
    if any(size < 0 for size in shape) or math.prod(shape) > LARGEST_TENSOR:
        raise NotSupported(f"shape {shape}")
    tensor = node.attribute("value")
    element = np.zeros(1, np.float32) if tensor is None else read_tensor(tensor, None)
    return node.const(np.broadcast_to(element.reshape(()), shape))


def shape(node: OnnxNode) -> Value:
    """Shape, of all dimensions or of some in a row."""
    rank = node.input(0).type.rank
    picked = slice(node.integer("start", 0), node.integer("end", rank))
    return node.const(np.asarray(node.input(0).shape[picked], np.int64))


def size(node: OnnxNode) -> Value:
    """Size."""
    return node.const(np.asarray(node.input(0).type.elements, np.int64))


def range_(node: OnnxNode) -> Value:
    """Range."""
    start, limit, step = (node.array(i, name) for i, name in enumerate(("start", "limit", "delta")))
    count = max(math.ceil((limit.item() - start.item()) / step.item()), 0) if step.item() else -1
    if not 0 <= count <= LARGEST_RANGE:
        raise NotSupported(f"from {start.item()} to {limit.item()} in steps of {step.item()}")
    return node.const((start + np.arange(count) * step).astype(start.dtype))


def eye_like(node: OnnxNode) -> Value:
    """EyeLike."""
    x = node.input(0)
    if x.type.rank != 2:
        raise NotSupported(f"{x.type} is no matrix")
    dtype = node.dtype("dtype", x.dtype)
    return node.const(np.eye(x.shape[0], x.shape[1], k=node.integer("k", 0)).astype(dtype))


def non_zero(node: OnnxNode) -> Value:
    """NonZero of a constant; of anything else the result's shape is not known."""
    data = node.input(0).data
    if data is None:
        raise NotSupported("the shape of its result depends on data")
    return node.const(np.asarray(np.nonzero(data), np.int64))


def unique(node: OnnxNode) -> tuple[Value, ...]:
    """Unique elements, or slices along an axis, of a constant."""
    x = node.input(0).data
    if x is None:
        raise NotSupported("the shape of its result depends on data")
    given = node.attribute("axis")
    axis = None if given is None else axis_of(int(given), x.ndim)
    found = np.unique(x, True, True, True, axis=axis)
    values, first, inverse, counts = (np.asarray(one) for one in found)
    inverse = inverse.reshape(-1)
    if not node.integer("sorted", 1):
        order = np.argsort(first)
        place = np.argsort(order)
        values = np.take(values, order, 0 if axis is None else axis)
        first, inverse, counts = first[order], place[inverse], counts[order]
    whole = (one.astype(np.int64) for one in (first, inverse, counts))
    return tuple(node.const(one) for one in (values, *whole))


def compress(node: OnnxNode) -> Value:
    """Compress by a constant condition."""
    x = node.input(0)
    (places,) = np.nonzero(node.array(1, "condition").reshape(-1))
    axis = node.attribute("axis")
    if axis is None:
        flat = node.reshape(x, x.type.elements)
        return node.add(Gather(0), flat, node.const(places))
    return node.add(Gather(axis_of(int(axis), x.type.rank)), x, node.const(places))


OPERATORS: OnnxOperators = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Shape": shape,
    "Size": size,
    "Range": range_,
    "EyeLike": eye_like,
    "NonZero": non_zero,
    "Unique": unique,
    "Compress": compress,
}
