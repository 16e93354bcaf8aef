"""`lower`: a call for every node of a graph, or the list of what is not supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.errors import ConvfindError
from convfind_networks.errors import Unsupported, UnsupportedError
from convfind_networks.layouts import LaidOut
from convfind_networks.lowering import (
    elementwise,
    normalization,
    pooling,
    rearrangement,
    selection,
)
from convfind_networks.lowering.attention import attention
from convfind_networks.lowering.call import Call, Lowering, Surroundings
from convfind_networks.lowering.convolution import convolution, linear
from convfind_networks.lowering.pointwise_depthwise import pointwise_depthwise
from convfind_networks.ops import (
    Activate,
    ArgReduce,
    Attention,
    AveragePool,
    BatchNorm,
    Binary,
    Cast,
    ChannelShuffle,
    Concat,
    Convolution,
    CumulativeProduct,
    CumulativeSum,
    Expand,
    Gather,
    GatherElements,
    GlobalPool,
    GroupNorm,
    LayerNorm,
    LayoutCopy,
    Linear,
    LocalResponseNorm,
    MatMul,
    MaxPool,
    Op,
    Pad,
    PointwiseDepthwise,
    Reduce,
    Resize,
    RMSNorm,
    Rotary,
    ScatterElements,
    Slice,
    Softmax,
    Split,
    Tile,
    TopK,
    Transpose,
    Unary,
    Where,
)

if TYPE_CHECKING:
    from convfind.plugins.registry import Registry

#: The function that lowers each operation. Views need nothing: their memory is that of their input.
_LOWERINGS: dict[type[Op], Lowering] = {
    Activate: elementwise.activate,
    ArgReduce: selection.arg_reduce,
    Attention: attention,
    AveragePool: pooling.average_pool,
    BatchNorm: elementwise.batch_norm,
    Binary: elementwise.binary,
    Cast: elementwise.cast,
    ChannelShuffle: rearrangement.channel_shuffle,
    Concat: rearrangement.concat,
    Convolution: convolution,
    CumulativeProduct: selection.cumulative_sum,
    CumulativeSum: selection.cumulative_sum,
    Expand: rearrangement.expand,
    Gather: selection.gather,
    GatherElements: selection.gather,
    GlobalPool: normalization.global_pool,
    GroupNorm: normalization.group_norm,
    LayerNorm: normalization.layer_norm,
    LayoutCopy: rearrangement.layout_copy,
    Linear: linear,
    LocalResponseNorm: selection.local_response_norm,
    MatMul: selection.matmul,
    MaxPool: pooling.max_pool,
    Pad: rearrangement.pad,
    PointwiseDepthwise: pointwise_depthwise,
    RMSNorm: normalization.rms_norm,
    Reduce: normalization.reduce,
    Rotary: elementwise.rotary,
    Resize: selection.resize,
    ScatterElements: selection.scatter,
    Slice: rearrangement.slice_,
    Softmax: normalization.softmax,
    Split: rearrangement.split,
    Tile: rearrangement.tile,
    TopK: selection.top_k,
    Transpose: rearrangement.transpose,
    Unary: elementwise.unary,
    Where: elementwise.where,
}


def lower(network: str, laid_out: LaidOut, registry: Registry) -> tuple[Call, ...]:
    """Return the calls that compute a graph, in order.

    Args:
        network: name of the network, for the error.
        laid_out: the graph.
        registry: where the problem types of operators are.

    Raises:
        UnsupportedError: some nodes cannot run; has every one, and why.
    """
    around = Surroundings(laid_out, registry)
    calls: list[Call] = []
    unsupported: list[Unsupported] = []
    for node in laid_out.graph.nodes:
        if node.op.is_view:
            continue
        lowering = _LOWERINGS.get(type(node.op))
        if lowering is None:
            why = "has a reference only; nothing computes it on a device"
            unsupported.append(Unsupported(node.op.kind, node.name, why))
            continue
        try:
            calls.append(lowering(around, node))
        except ConvfindError as error:
            unsupported.append(Unsupported(node.op.kind, node.name, str(error)))
    if unsupported:
        raise UnsupportedError(network, unsupported)
    return tuple(calls)
