"""The operators of ONNX that are supported, by name: a function each that adds to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from convfind_networks.from_onnx.node import OnnxNode
from convfind_networks.from_onnx.operators import (
    activation,
    constant,
    convolution,
    elementwise,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    rearrangement,
    reduction,
    resize,
)
from convfind_networks.graph import Value

OPERATORS: Mapping[str, Callable[[OnnxNode], Value | tuple[Value, ...]]] = {
    **activation.OPERATORS,
    **constant.OPERATORS,
    **convolution.OPERATORS,
    **elementwise.OPERATORS,
    **indexing.OPERATORS,
    **normalization.OPERATORS,
    **pooling.OPERATORS,
    **products.OPERATORS,
    **quantization.OPERATORS,
    **rearrangement.OPERATORS,
    **reduction.OPERATORS,
    **resize.OPERATORS,
}

__all__ = ["OPERATORS"]
