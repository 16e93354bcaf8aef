"""Conv, ConvTranspose, ConvInteger, QLinearConv."""

from __future__ import annotations

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Convolution,
    DeformableConvolution,
    Dequantize,
    Epilogue,
    Geometry,
    IntegerConvolution,
    Pad,
    Quantize,
)

_Sizes = tuple[int, ...]


def window_of(node: OnnxNode, x: _Sizes, size: _Sizes) -> tuple[_Sizes, _Sizes, _Sizes, _Sizes]:
    """Return stride, padding before and after, and dilation of a convolution or pooling.

    Args:
        node: the node, with ``strides``, ``dilations``, ``pads`` and ``auto_pad``.
        x: the spatial sizes of the data.
        size: those of the filter or the window.
    """
    rank = len(x)
    stride, dilation = (
        node.integers("strides", (1,) * rank),
        node.integers("dilations", (1,) * rank),
    )
    pads = node.integers("pads", (0,) * 2 * rank)
    if len(size) != rank or {len(stride), len(dilation), len(pads) / 2} != {rank}:
        raise NotSupported(f"strides, dilations or pads are not for {rank} dimensions")
    if min((*stride, *dilation), default=1) < 1:
        raise NotSupported("strides and dilations begin at 1")
    auto = node.word("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = (0,) * 2 * rank
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            for n, k, s, d in zip(x, size, stride, dilation, strict=True)
        ]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        pads = (*less, *more) if auto == "SAME_UPPER" else (*more, *less)
    elif auto != "NOTSET":
        raise NotSupported(f"auto_pad {auto}")
    return stride, pads[:rank], pads[rank:], dilation


def geometry_of(node: OnnxNode, x: Value, w: Value) -> Geometry:
    """Return the geometry of an ordinary convolution."""
    size = node.integers("kernel_shape", w.shape[2:])
    if size != w.shape[2:]:
        raise NotSupported(f"kernel_shape {size} of weights {w.type}")
    stride, begin, end, dilation = window_of(node, x.shape[2:], size)
    return Geometry(stride, begin, end, dilation, node.integer("group", 1))


def convolution(node: OnnxNode) -> Value:
    """Conv."""
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    op = Convolution(geometry_of(node, x, w), Epilogue(bias=bias is not None))
    return node.add(op, *filter(None, (x, w, bias)))


def transposed(node: OnnxNode) -> Value:
    """ConvTranspose; ``output_shape`` is a way to say the pads."""
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    rank = x.type.rank - 2
    stride, dilation = (
        node.integers("strides", (1,) * rank),
        node.integers("dilations", (1,) * rank),
    )
    more, pads = (
        node.integers("output_padding", (0,) * rank),
        node.integers("pads", (0,) * 2 * rank),
    )
    wanted, auto = node.integers("output_shape")[-rank:], node.word("auto_pad", "NOTSET")
    if {len(stride), len(dilation), len(more), len(pads) / 2, len(w.shape) - 2} != {rank}:
        raise NotSupported(f"strides, dilations or pads are not for {rank} dimensions")
    if auto.startswith("SAME") and not wanted:
        wanted = tuple(n * s for n, s in zip(x.shape[2:], stride, strict=True))
    if auto == "VALID":
        pads = (0,) * 2 * rank
    begin, end = list(pads[:rank]), list(pads[rank:])
    lacking = [0] * rank
    for axis in range(rank if wanted else 0):
        full = stride[axis] * (x.shape[2 + axis] - 1) + more[axis]
        total = full + (w.shape[2 + axis] - 1) * dilation[axis] + 1 - wanted[axis]
        lacking[axis] = max(-total, 0)
        half = max(total, 0) // 2
        begin[axis], end[axis] = half, max(total, 0) - half
        if auto != "SAME_UPPER":
            begin[axis], end[axis] = end[axis], begin[axis]
    # Zeros behind the sums, where a convolution cannot bring them forth itself.
    added = [
        (o + m, 0) if o + m < s else (0, o + m)
        for o, m, s in zip(more, lacking, stride, strict=True)
    ]
    own, beyond = tuple(one for one, _ in added), tuple(one for _, one in added)
    geometry = Geometry(
        stride, tuple(begin), tuple(end), dilation, node.integer("group", 1), True, own
    )
    if not any(beyond):
        op = Convolution(geometry, Epilogue(bias=bias is not None))
        return node.add(op, *filter(None, (x, w, bias)))
    y = node.add(Pad((0,) * (rank + 2), (0, 0, *beyond)), node.add(Convolution(geometry), x, w))
    return y if bias is None else node.plus(y, node.reshape(bias, *bias.shape, *(1,) * rank))


def zero_point(node: OnnxNode, index: int, of: Value) -> Value:
    """Return a zero point, or 0 where none is given."""
    given = node.optional(index)
    return node.const(0, like=of) if given is None else given


def integer(node: OnnxNode) -> Value:
    """ConvInteger."""
    x, w = node.input(0), node.input(1)
    zeros = zero_point(node, 2, x), zero_point(node, 3, w)
    return node.add(IntegerConvolution(geometry_of(node, x, w)), x, w, *zeros)


def quantized(node: OnnxNode) -> Value:
    """QLinearConv: whole sums, then the result's scale and zero point."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.values()[:8]
    sums = node.add(IntegerConvolution(geometry_of(node, x, w)), x, w, x_zero, w_zero)
    bias = node.optional(8)
    if bias is not None:
        sums = node.plus(sums, node.reshape(bias, bias.shape[0], *(1,) * (x.type.rank - 2)))
    scale = node.times(node.reshape(w_scale, *w_scale.shape), node.reshape(x_scale))
    real = node.add(Dequantize(np.dtype(np.float32), axis=1), sums, scale)
    return node.add(Quantize(y_zero.dtype), real, y_scale, y_zero)


def deformable(node: OnnxNode) -> Value:
    """DeformConv."""
    x, w, offsets = (node.input(at) for at in range(3))
    bias, mask = node.optional(3), node.optional(4)
    op = DeformableConvolution(geometry_of(node, x, w), node.integer("offset_group", 1))
    y = node.add(op, *filter(None, (x, w, offsets, mask)))
    return y if bias is None else node.plus(y, node.reshape(bias, *bias.shape, 1, 1))


OPERATORS: OnnxOperators = {
    "Conv": convolution,
    "DeformConv": deformable,
    "ConvTranspose": transposed,
    "ConvInteger": integer,
    "QLinearConv": quantized,
}
