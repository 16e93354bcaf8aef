"""The operators of ONNX that are supported, by name: a function each that adds to a graph."""

from __future__ import annotations

from convfind_networks.from_onnx.node import OnnxOperators
from convfind_networks.from_onnx.operators import (
    activation,
    constant,
    control_flow,
    convolution,
    elementwise,
    fused,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    quantized,
    rearrangement,
    recurrent,
    reduction,
    regions,
    resize,
    sampling,
    sequences,
    signal,
)
from convfind_networks.from_onnx.operators.refusals import refusal

OPERATORS: OnnxOperators = {
    **activation.OPERATORS,
    **constant.OPERATORS,
    **control_flow.OPERATORS,
    **convolution.OPERATORS,
    **elementwise.OPERATORS,
    **fused.OPERATORS,
    **indexing.OPERATORS,
    **normalization.OPERATORS,
    **pooling.OPERATORS,
    **products.OPERATORS,
    **quantization.OPERATORS,
    **rearrangement.OPERATORS,
    **recurrent.OPERATORS,
    **reduction.OPERATORS,
    **regions.OPERATORS,
    **resize.OPERATORS,
    **sampling.OPERATORS,
    **sequences.OPERATORS,
    **signal.OPERATORS,
}

#: Those of ONNX Runtime's own domain.
CONTRIBUTED: OnnxOperators = {**fused.CONTRIBUTED, **quantized.CONTRIBUTED}

__all__ = ["CONTRIBUTED", "OPERATORS", "refusal"]
