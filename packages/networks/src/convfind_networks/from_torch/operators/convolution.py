"""Convolutions."""

from __future__ import annotations

from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import Convolution, Epilogue, Geometry


def convolution(node: AtenNode) -> Value:
    """aten.convolution, aten.conv1d to conv3d and their transposed forms."""
    transposed = bool(node.get("transposed", False))
    return _convolution(node, transposed)


def transposed(node: AtenNode) -> Value:
    """aten.conv_transpose1d to conv_transpose3d."""
    return _convolution(node, True)


def _convolution(node: AtenNode, transposed: bool) -> Value:
    x, w, bias = node.value("input"), node.value("weight"), node.optional("bias")
    rank = w.type.rank - 2
    if x.type.rank != w.type.rank:
        raise NotSupported("an image without a batch")
    stride, dilation = node.numbers("stride", rank, 1), node.numbers("dilation", rank, 1)
    padding = node.get("padding", 0)
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(w.shape[2:], dilation, strict=True)]
        begin, end = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    elif padding == "valid":
        begin = end = (0,) * rank
    else:
        begin = end = node.numbers("padding", rank, 0)
    geometry = Geometry(
        stride,
        begin,
        end,
        dilation,
        int(node.get("groups", 1)),
        transposed,
        node.numbers("output_padding", rank, 0) if transposed else (),
    )
    op = Convolution(geometry, Epilogue(bias=bias is not None))
    return node.add(op, *filter(None, (x, w, bias)))


OPERATORS: AtenOperators = {
    "convolution": convolution,
    "conv1d": convolution,
    "conv2d": convolution,
    "conv3d": convolution,
    "conv_transpose1d": transposed,
    "conv_transpose2d": transposed,
    "conv_transpose3d": transposed,
}
