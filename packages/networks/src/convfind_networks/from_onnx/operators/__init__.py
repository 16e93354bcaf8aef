"""The operators of ONNX that are supported, by name: a function each that adds to a graph."""

from __future__ import annotations

from convfind_networks.from_onnx.node import OnnxOperators
from convfind_networks.from_onnx.operators import (
    activation,
    constant,
    convolution,
    einsum,
    elementwise,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    rearrangement,
    reduction,
    resize,
    sampling,
)

OPERATORS: OnnxOperators = {
    **activation.OPERATORS,
    **constant.OPERATORS,
    **convolution.OPERATORS,
    **einsum.OPERATORS,
    **elementwise.OPERATORS,
    **indexing.OPERATORS,
    **normalization.OPERATORS,
    **pooling.OPERATORS,
    **products.OPERATORS,
    **quantization.OPERATORS,
    **rearrangement.OPERATORS,
    **reduction.OPERATORS,
    **resize.OPERATORS,
    **sampling.OPERATORS,
}

__all__ = ["OPERATORS"]
