"""Shapes and orders of elements: Reshape, Transpose, Concat, Split, Slice, Pad, and their kin."""

from __future__ import annotations

import math

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axes_of, axis_of
from convfind_networks.ops import Concat, Expand, Pad, PadMode, Slice, Split, Tile, Where
from convfind_networks.ops.matmul import broadcast_shape


def reshape(node: OnnxNode) -> Value:
    """Reshape: 0 keeps a dimension, -1 is what is left."""
    x = node.input(0)
    wanted = node.integers_or_input("shape", 1)
    if wanted is None:
        raise NotSupported("shape is missing")
    sizes = list(wanted)
    if not node.integer("allowzero", 0):
        if any(size == 0 and axis >= x.type.rank for axis, size in enumerate(sizes)):
            raise NotSupported(f"shape {wanted} keeps a dimension that {x.type} has not")
        sizes = [size or x.shape[axis] for axis, size in enumerate(sizes)]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        if sizes.count(-1) > 1 or not rest or x.type.elements % rest:
            raise NotSupported(f"shape {wanted} of {x.type}")
        sizes[sizes.index(-1)] = x.type.elements // rest
    return node.reshape(x, *sizes)


def flatten(node: OnnxNode) -> Value:
    """Flatten: a matrix, cut before an axis, which may be one behind the last."""
    x = node.input(0)
    axis = node.integer("axis", 1)
    axis = axis if axis == x.type.rank else axis_of(axis, x.type.rank)
    return node.reshape(x, math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def squeeze(node: OnnxNode) -> Value:
    """Squeeze."""
    x = node.input(0)
    given = node.integers_or_input("axes", 1)
    axes = (
        axes_of(given, x.type.rank)
        if given
        else tuple(axis for axis, size in enumerate(x.shape) if size == 1)
    )
    if any(x.shape[axis] != 1 for axis in axes):
        raise NotSupported(f"axes {axes} of {x.type} are not all of size 1")
    return node.reshape(x, *(size for axis, size in enumerate(x.shape) if axis not in axes))


def unsqueeze(node: OnnxNode) -> Value:
    """Unsqueeze."""
    x = node.input(0)
    given = node.integers_or_input("axes", 1) or ()
    rank = x.type.rank + len(given)
    axes, sizes = axes_of(given, rank), iter(x.shape)
    return node.reshape(x, *(1 if axis in axes else next(sizes) for axis in range(rank)))


def transpose(node: OnnxNode) -> Value:
    """Transpose: reversed unless an order is given."""
    x = node.input(0)
    return node.transpose(x, *node.integers("perm", tuple(reversed(range(x.type.rank)))))


def expand(node: OnnxNode) -> Value:
    """Expand: the common shape of x and the one given."""
    x = node.input(0)
    given = tuple(int(size) for size in node.array(1, "shape").reshape(-1))
    return node.add(Expand(broadcast_shape(x.shape, given)), x)


def tile(node: OnnxNode) -> Value:
    """Tile."""
    if node.opset < 6:
        raise NotSupported(f"opset {node.opset} of it; convert the model to 6 or later")
    repeats = tuple(int(one) for one in node.array(1, "repeats").reshape(-1))
    return node.add(Tile(repeats), node.input(0))


def concat(node: OnnxNode) -> Value:
    """Concat."""
    values = node.values()
    axis = axis_of(node.integer("axis", 1), values[0].type.rank)
    return node.add(Concat(axis), *values)


def split(node: OnnxNode) -> tuple[Value, ...]:
    """Split: into given sizes, or into as many equal parts as there are results."""
    x = node.input(0)
    axis = axis_of(node.integer("axis", 0), x.type.rank)
    sizes = node.integers_or_input("split", 1)
    if sizes is None:
        parts = node.integer("num_outputs", len(node.proto.output))
        each = -(-x.shape[axis] // max(parts, 1))
        sizes = (*(each,) * (parts - 1), x.shape[axis] - each * (parts - 1))
    return node.add_all(Split(axis, sizes), x)


def slice_(node: OnnxNode) -> Value:
    """Slice, with Python's rules for what is out of range."""
    x = node.input(0)
    starts, ends = (node.integers_or_input(name, at) for name, at in (("starts", 1), ("ends", 2)))
    if starts is None or ends is None:
        raise NotSupported("starts or ends are missing")
    axes = node.integers_or_input("axes", 3) or tuple(range(len(starts)))
    steps = node.integers_or_input("steps", 4) or (1,) * len(starts)
    slices = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        at = axis_of(axis, x.type.rank)
        size = x.shape[at]
        # A negative end counts from behind; one before the first element is "to the beginning".
        stop = None if step < 0 and end < -size else end
        slices[at] = slice(start, stop, step)
    return node.add(Slice.of(x.shape, slices), x)


def pad(node: OnnxNode) -> Value:
    """Pad: pads are an attribute before opset 11, an input since."""
    x = node.input(0)
    pads = node.integers_or_input("pads" if node.opset > 1 else "paddings", 1)
    if pads is None:
        raise NotSupported("pads are missing")
    older = node.opset < 11
    value = node.real("value", 0.0) if older else node.number(2, "constant_value", 0.0)
    rank = x.type.rank
    axes = range(rank) if node.optional(3) is None else node.array(3, "axes").reshape(-1)
    begin, end = [0] * rank, [0] * rank
    count = len(pads) // 2
    for axis, before, after in zip(axes, pads[:count], pads[count:], strict=True):
        begin[axis_of(int(axis), rank)] = before
        end[axis_of(int(axis), rank)] = after
    try:
        mode = PadMode(node.word("mode", "constant"))
    except ValueError as exc:
        raise NotSupported(str(exc)) from exc
    return node.add(Pad(tuple(begin), tuple(end), mode, value), x)


def depth_to_space(node: OnnxNode) -> Value:
    """DepthToSpace: channels into blocks of the image."""
    x, block = node.input(0), node.integer("blocksize", 1)
    n, c, h, w = x.shape
    if node.word("mode", "DCR") == "CRD":
        split = node.reshape(x, n, c // block**2, block, block, h, w)
        turned = node.transpose(split, 0, 1, 4, 2, 5, 3)
    else:
        split = node.reshape(x, n, block, block, c // block**2, h, w)
        turned = node.transpose(split, 0, 3, 4, 1, 5, 2)
    return node.reshape(turned, n, c // block**2, h * block, w * block)


def space_to_depth(node: OnnxNode) -> Value:
    """SpaceToDepth: blocks of the image into channels."""
    x, block = node.input(0), node.integer("blocksize", 1)
    n, c, h, w = x.shape
    split = node.reshape(x, n, c, h // block, block, w // block, block)
    crd = node.word("mode", "DCR") == "CRD"
    turned = node.transpose(split, *((0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4)))
    return node.reshape(turned, n, c * block**2, h // block, w // block)


def trilu(node: OnnxNode) -> Value:
    """Trilu: zeros above or below a diagonal."""
    x = node.input(0)
    offset = int(node.number(1, "k", 0))
    ones = np.ones(x.shape[-2:], np.bool_)
    kept = np.triu(ones, offset) if node.integer("upper", 1) else np.tril(ones, offset)
    return node.add(Where(), node.const(kept), x, node.const(0, like=x))


OPERATORS: OnnxOperators = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Expand": expand,
    "Tile": tile,
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Pad": pad,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Trilu": trilu,
}
