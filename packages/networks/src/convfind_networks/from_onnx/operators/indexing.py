"""Gather, Scatter, OneHot, TensorScatter."""

from __future__ import annotations

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import axis_of
from convfind_networks.ops import (
    BinaryFunction,
    Combine,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    ScatterElements,
    ScatterND,
    Where,
)


def gather(node: OnnxNode) -> Value:
    """Gather."""
    x, indices = node.values()
    return node.add(Gather(axis_of(node.integer("axis", 0), x.type.rank)), x, indices)


def gather_elements(node: OnnxNode) -> Value:
    """GatherElements."""
    x, indices = node.values()
    return node.add(GatherElements(axis_of(node.integer("axis", 0), x.type.rank)), x, indices)


def gather_nd(node: OnnxNode) -> Value:
    """GatherND."""
    return node.add(GatherND(node.integer("batch_dims", 0)), *node.values())


def scatter_elements(node: OnnxNode) -> Value:
    """ScatterElements, and Scatter as it was called before opset 11."""
    x, indices, updates = node.values()
    axis = axis_of(node.integer("axis", 0), x.type.rank)
    return node.add(ScatterElements(axis, _combine(node)), x, indices, updates)


def scatter_nd(node: OnnxNode) -> Value:
    """ScatterND."""
    return node.add(ScatterND(_combine(node)), *node.values())


def _combine(node: OnnxNode) -> Combine:
    return Combine(node.word("reduction", "none"))


def one_hot(node: OnnxNode) -> Value:
    """OneHot: a comparison with every class."""
    indices = node.input(0)
    depth = int(node.array(1, "depth").reshape(()).item())
    off, on = (node.reshape(node.add(Gather(), node.input(2), node.const(at))) for at in (0, 1))
    axis = axis_of(node.integer("axis", -1), indices.type.rank + 1)
    whole = node.cast(indices, np.int64)
    negative = node.binary(BinaryFunction.LESS, whole, 0)
    counted = node.add(Where(), negative, node.plus(whole, depth), whole)
    shape = (*indices.shape[:axis], 1, *indices.shape[axis:])
    classes = np.arange(depth).reshape(-1, *(1,) * (len(shape) - axis - 1))
    hot = node.binary(BinaryFunction.EQUAL, node.reshape(counted, *shape), node.const(classes))
    return node.add(Where(), hot, on, off)


def tensor_scatter(node: OnnxNode) -> Value:
    """TensorScatter: a cache of keys or values with some of its rows replaced."""
    x, updates = node.input(0), node.input(1)
    axis = axis_of(node.integer("axis", -2), x.type.rank)
    shape = [1] * x.type.rank
    shape[axis] = updates.shape[axis]
    places = node.const(np.arange(updates.shape[axis]).reshape(shape))
    if (begin := node.optional(2)) is not None:
        shape[axis], shape[0] = 1, begin.type.elements
        places = node.plus(node.reshape(node.cast(begin, np.int64), *shape), places)
    if node.word("mode", "linear") == "circular":
        places = node.binary(BinaryFunction.MOD, places, x.shape[axis])
    return node.add(ScatterElements(axis), x, node.add(Expand(updates.shape), places), updates)


OPERATORS: OnnxOperators = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "OneHot": one_hot,
    "TensorScatter": tensor_scatter,
}
