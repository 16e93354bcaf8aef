"""Elements that are moved: copies between layouts, concatenations, parts, paddings."""

from __future__ import annotations

from convfind_networks.graph import Node
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.lowering.operator import operator
from convfind_networks.ops import (
    ChannelShuffle,
    Concat,
    Expand,
    LayoutCopy,
    Pad,
    Slice,
    Split,
    Tile,
    Transpose,
)


def layout_copy(around: Surroundings, node: Node) -> Call:
    """Lower a copy into the other layout."""
    op = node.op
    assert isinstance(op, LayoutCopy)
    last = op.channels_last
    return _of_one(around, node, "copy", channels_last=not last, y_channels_last=last)


def concat(around: Surroundings, node: Node) -> Call:
    """Lower a concatenation."""
    op = node.op
    assert isinstance(op, Concat)
    parts = {f"x{at}": name for at, name in enumerate(node.inputs)}
    shapes = tuple(around.type(name).shape for name in node.inputs)
    operands = {**parts, "y": node.output}
    return operator(around, node, "concat", operands, shapes=shapes, axis=op.axis)


def split(around: Surroundings, node: Node) -> Call:
    """Lower a split into pieces."""
    op = node.op
    assert isinstance(op, Split)
    x = node.inputs[0]
    operands = {"x": x, **{f"y{at}": name for at, name in enumerate(node.outputs)}}
    shape = around.type(x).shape
    return operator(around, node, "split", operands, x=shape, axis=op.axis, sizes=op.sizes)


def slice_(around: Surroundings, node: Node) -> Call:
    """Lower a part of a tensor."""
    op = node.op
    assert isinstance(op, Slice)
    return _of_one(around, node, "slice", begin=op.begin, count=op.count, step=op.step)


def pad(around: Surroundings, node: Node) -> Call:
    """Lower elements around a tensor."""
    op = node.op
    assert isinstance(op, Pad)
    how = {"begin": op.begin, "end": op.end, "mode": op.mode.value, "value": op.value}
    return _of_one(around, node, "pad", **how)


def tile(around: Surroundings, node: Node) -> Call:
    """Lower repetitions along axes."""
    op = node.op
    assert isinstance(op, Tile)
    return _of_one(around, node, "tile", repeats=op.repeats)


def expand(around: Surroundings, node: Node) -> Call:
    """Lower repetitions along axes of size 1."""
    op = node.op
    assert isinstance(op, Expand)
    return _of_one(around, node, "expand", shape=op.shape)


def transpose(around: Surroundings, node: Node) -> Call:
    """Lower dimensions in another order."""
    op = node.op
    assert isinstance(op, Transpose)
    return _of_one(around, node, "transpose", order=op.order)


def channel_shuffle(around: Surroundings, node: Node) -> Call:
    """Lower channels that are dealt out anew."""
    op = node.op
    assert isinstance(op, ChannelShuffle)
    return _of_one(around, node, "channel-shuffle", groups=op.groups)


def _of_one(around: Surroundings, node: Node, kind: str, **fields: object) -> Call:
    x = node.inputs[0]
    operands = {"x": x, "y": node.output}
    return operator(around, node, kind, operands, x=around.type(x).shape, **fields)
