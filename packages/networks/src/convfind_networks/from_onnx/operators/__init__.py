"""The operators of ONNX that are supported, by name: a function each that adds to a graph."""

from __future__ import annotations

from convfind_networks.from_onnx.node import OnnxOperators
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

OPERATORS: OnnxOperators = {
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
