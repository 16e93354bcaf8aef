"""Convolutions and matrix products."""

from __future__ import annotations

import math

from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import Convolution, Epilogue, Geometry, Linear, MatMul


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


def linear(node: AtenNode) -> Value:
    """aten.linear."""
    x, w, bias = node.value("input"), node.value("weight"), node.optional("bias")
    return node.add(Linear(Epilogue(bias=bias is not None)), *filter(None, (x, w, bias)))


def matmul(node: AtenNode) -> Value:
    """aten.matmul, mm, bmm."""
    a = node.value()
    b = node.optional("other") or node.value("mat2")
    return node.add(MatMul(), a, b)


def addmm(node: AtenNode) -> Value:
    """aten.addmm, baddbmm: beta * self + alpha * a @ b."""
    a = node.optional("mat1") or node.value("batch1")
    b = node.optional("mat2") or node.value("batch2")
    product = node.times(node.add(MatMul(), a, b), node.get("alpha", 1))
    return node.plus(product, node.times(node.value(), node.get("beta", 1)))


def attention(node: AtenNode) -> Value:
    """aten.scaled_dot_product_attention."""
    q, k, v = node.value("query"), node.value("key"), node.value("value")
    mask = node.optional("attn_mask")
    if node.get("is_causal", False) or node.get("dropout_p", 0.0) or node.get("enable_gqa", False):
        raise NotSupported("a causal mask, dropout, or grouped queries")
    if mask is not None and not mask.type.is_float:
        raise NotSupported("a mask of truth values")
    return node.attention(q, k, v, mask, node.get("scale", 1 / math.sqrt(q.shape[-1])))


OPERATORS: AtenOperators = {
    "convolution": convolution,
    "conv1d": convolution,
    "conv2d": convolution,
    "conv3d": convolution,
    "conv_transpose1d": transposed,
    "conv_transpose2d": transposed,
    "conv_transpose3d": transposed,
    "linear": linear,
    "matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "addmm": addmm,
    "baddbmm": addmm,
    "scaled_dot_product_attention": attention,
}
