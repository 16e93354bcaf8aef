"""The operations: a small vocabulary, each with its rule for shapes and its reference."""

from __future__ import annotations

from convfind.checking.borders import PadMode
from convfind_networks.ops.activation import Activate, Activation, ActivationKind
from convfind_networks.ops.attention import Attention
from convfind_networks.ops.convolution import Convolution, IntegerConvolution
from convfind_networks.ops.deformable import DeformableConvolution
from convfind_networks.ops.elementwise import (
    Binary,
    BinaryFunction,
    Cast,
    Identity,
    Unary,
    UnaryFunction,
    Where,
)
from convfind_networks.ops.epilogue import Epilogue
from convfind_networks.ops.geometry import Geometry, Window
from convfind_networks.ops.indexing import (
    Combine,
    Gather,
    GatherElements,
    GatherND,
    ScatterElements,
    ScatterND,
)
from convfind_networks.ops.linear import Linear
from convfind_networks.ops.matmul import IntegerMatMul, MatMul
from convfind_networks.ops.normalization import (
    BatchNorm,
    GroupNorm,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
    Softmax,
)
from convfind_networks.ops.op import Op
from convfind_networks.ops.pointwise_depthwise import PointwiseDepthwise
from convfind_networks.ops.pooling import AveragePool, GlobalPool, MaxPool, PoolKind
from convfind_networks.ops.quantization import Dequantize, Quantize
from convfind_networks.ops.rearrangement import (
    ChannelShuffle,
    Concat,
    Expand,
    LayoutCopy,
    Pad,
    Reshape,
    Slice,
    Split,
    Tile,
    Transpose,
)
from convfind_networks.ops.reduction import (
    ArgReduce,
    CumulativeProduct,
    CumulativeSum,
    Reduce,
    ReduceFunction,
    TopK,
)
from convfind_networks.ops.resize import Coordinates, Interpolation, Resize, Rounding
from convfind_networks.ops.rotary import Rotary
from convfind_networks.ops.strided import StridedView

__all__ = [
    "Activate",
    "Activation",
    "ActivationKind",
    "ArgReduce",
    "Attention",
    "AveragePool",
    "BatchNorm",
    "Binary",
    "BinaryFunction",
    "Cast",
    "ChannelShuffle",
    "Combine",
    "Concat",
    "Convolution",
    "Coordinates",
    "CumulativeProduct",
    "CumulativeSum",
    "DeformableConvolution",
    "Dequantize",
    "Epilogue",
    "Expand",
    "Gather",
    "GatherElements",
    "GatherND",
    "Geometry",
    "GlobalPool",
    "GroupNorm",
    "Identity",
    "IntegerConvolution",
    "IntegerMatMul",
    "Interpolation",
    "LayerNorm",
    "LayoutCopy",
    "Linear",
    "LocalResponseNorm",
    "MatMul",
    "MaxPool",
    "Op",
    "Pad",
    "PadMode",
    "PointwiseDepthwise",
    "PoolKind",
    "Quantize",
    "RMSNorm",
    "Reduce",
    "ReduceFunction",
    "Reshape",
    "Resize",
    "Rotary",
    "Rounding",
    "ScatterElements",
    "ScatterND",
    "Slice",
    "Softmax",
    "Split",
    "StridedView",
    "Tile",
    "TopK",
    "Transpose",
    "Unary",
    "UnaryFunction",
    "Where",
    "Window",
]
