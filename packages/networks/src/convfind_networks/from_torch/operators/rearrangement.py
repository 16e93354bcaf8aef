"""Shapes, parts and orders of elements; new tensors; look-ups."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from convfind_networks.from_torch.element_type import dtype_of
from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import (
    ChannelShuffle,
    Concat,
    Expand,
    Gather,
    GatherElements,
    GatherND,
    Identity,
    Pad,
    PadMode,
    Slice,
    Split,
    Tile,
    Where,
)
from convfind_networks.ops.matmul import broadcast_shape
from convfind_networks.tensor_type import Array


def identity(node: AtenNode) -> Value:
    """aten.clone, contiguous, alias, detach, dropout in eval mode."""
    if node.get("train", False):
        raise NotSupported("training; call eval() before the export")
    return node.add(Identity(), node.value())


def view(node: AtenNode) -> Value:
    """aten.view, reshape: -1 is what is left."""
    x = node.value()
    sizes = [int(size) for size in node.get("size", node.get("shape"))]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = x.type.elements // max(rest, 1)
    return node.reshape(x, *sizes)


def flatten(node: AtenNode) -> Value:
    """aten.flatten."""
    x = node.value()
    rank = x.type.rank
    first, last = node.axis("start_dim", rank), node.axis("end_dim", rank, -1)
    merged = math.prod(x.shape[first : last + 1])
    return node.reshape(x, *x.shape[:first], merged, *x.shape[last + 1 :])


def unflatten(node: AtenNode) -> Value:
    """aten.unflatten."""
    x = node.value()
    axis = node.axis("dim", x.type.rank)
    sizes = [int(size) for size in node.get("sizes")]
    rest = math.prod(size for size in sizes if size != -1)
    sizes = [x.shape[axis] // rest if size == -1 else size for size in sizes]
    return node.reshape(x, *x.shape[:axis], *sizes, *x.shape[axis + 1 :])


def squeeze(node: AtenNode) -> Value:
    """aten.squeeze: dimensions of size 1, all or those that are given."""
    x = node.value()
    axes = node.axes("dim", x.type.rank)
    kept = [size for axis, size in enumerate(x.shape) if axis not in axes or size != 1]
    return node.reshape(x, *kept)


def unsqueeze(node: AtenNode) -> Value:
    """aten.unsqueeze."""
    x = node.value()
    axis = node.axis("dim", x.type.rank + 1)
    return node.reshape(x, *x.shape[:axis], 1, *x.shape[axis:])


def permute(node: AtenNode) -> Value:
    """aten.permute."""
    x = node.value()
    return node.transpose(x, *(axis_of(int(axis), x.type.rank) for axis in node.get("dims")))


def transpose(node: AtenNode) -> Value:
    """aten.transpose, t: two dimensions change places."""
    x = node.value()
    rank = x.type.rank
    if rank < 2:
        return node.add(Identity(), x)
    a, b = node.axis("dim0", rank, 0), node.axis("dim1", rank, 1)
    order = list(range(rank))
    order[a], order[b] = b, a
    return node.transpose(x, *order)


def expand(node: AtenNode) -> Value:
    """aten.expand: -1 keeps a dimension."""
    x = node.value()
    sizes = [int(size) for size in node.get("size")]
    own = (1,) * (len(sizes) - x.type.rank) + x.shape
    return node.add(Expand(tuple(o if s == -1 else s for s, o in zip(sizes, own, strict=True))), x)


def repeat(node: AtenNode) -> Value:
    """aten.repeat."""
    x = node.value()
    repeats = tuple(int(one) for one in node.get("repeats"))
    wide = node.reshape(x, *(1,) * (len(repeats) - x.type.rank), *x.shape)
    return node.add(Tile(repeats), wide)


def _values(node: AtenNode, name: str) -> list[Value]:
    given = [one for one in node.get(name, ()) if isinstance(one, Value)]
    if not given or len(given) != len(node.get(name)):
        raise NotSupported(f"{name} are not all tensors")
    return given


def concat(node: AtenNode) -> Value:
    """aten.cat."""
    values = _values(node, "tensors")
    return node.add(Concat(node.axis("dim", values[0].type.rank)), *values)


def stack(node: AtenNode) -> Value:
    """aten.stack: along a new dimension."""
    values = _values(node, "tensors")
    axis = node.axis("dim", values[0].type.rank + 1)
    wide = [node.reshape(one, *one.shape[:axis], 1, *one.shape[axis:]) for one in values]
    return node.add(Concat(axis), *wide)


def split(node: AtenNode) -> tuple[Value, ...]:
    """aten.split, split_with_sizes, chunk."""
    x = node.value()
    axis = node.axis("dim", x.type.rank)
    whole = x.shape[axis]
    sizes = node.get("split_sizes") or node.get("split_size")
    if node.get("chunks"):
        sizes = -(-whole // int(node.get("chunks")))
    if isinstance(sizes, int):
        sizes = [min(sizes, whole - at) for at in range(0, whole, sizes)]
    return node.add_all(Split(axis, tuple(int(size) for size in sizes)), x)


def unbind(node: AtenNode) -> tuple[Value, ...]:
    """aten.unbind."""
    x = node.value()
    axis = node.axis("dim", x.type.rank)
    parts = node.add_all(Split(axis, (1,) * x.shape[axis]), x)
    return tuple(node.reshape(one, *x.shape[:axis], *x.shape[axis + 1 :]) for one in parts)


def slice_(node: AtenNode) -> Value:
    """aten.slice."""
    x = node.value()
    axis = node.axis("dim", x.type.rank)
    part = slice(node.get("start"), node.get("end"), node.get("step", 1))
    return node.add(Slice.of(x.shape, {axis: part}), x)


def narrow(node: AtenNode) -> Value:
    """aten.narrow."""
    x = node.value()
    axis, start = node.axis("dim", x.type.rank), int(node.get("start"))
    return node.add(Slice.of(x.shape, {axis: slice(start, start + int(node.get("length")))}), x)


def select(node: AtenNode) -> Value:
    """aten.select: one slice, without its dimension."""
    x = node.value()
    axis = node.axis("dim", x.type.rank)
    at = axis_of(int(node.get("index")), x.shape[axis])
    part = node.add(Slice.of(x.shape, {axis: slice(at, at + 1)}), x)
    return node.reshape(part, *x.shape[:axis], *x.shape[axis + 1 :])


def flip(node: AtenNode) -> Value:
    """aten.flip."""
    x = node.value()
    backwards = {axis: slice(None, None, -1) for axis in node.axes("dims", x.type.rank)}
    return node.add(Slice.of(x.shape, backwards), x)


def roll(node: AtenNode) -> Value:
    """aten.roll: what leaves at one end comes in at the other."""
    x = node.value()
    dims = node.get("dims", ())
    if not dims:
        raise NotSupported("of the flattened tensor")
    for shift, dim in zip(node.get("shifts"), dims, strict=True):
        axis = axis_of(int(dim), x.type.rank)
        cut = -int(shift) % x.shape[axis]
        if cut:
            head, tail = node.add_all(Split(axis, (cut, x.shape[axis] - cut)), x)
            x = node.add(Concat(axis), tail, head)
    return x


def pad(node: AtenNode) -> Value:
    """aten.pad, constant_pad_nd and their kin: pairs, from the last dimension on."""
    x = node.value()
    pads = [int(one) for one in node.get("pad", node.get("padding"))]
    mode = {"constant": PadMode.CONSTANT, "reflect": PadMode.REFLECT, "replicate": PadMode.EDGE,
            "circular": PadMode.WRAP}[node.get("mode", "constant")]  # fmt: skip
    begin, end = [0] * x.type.rank, [0] * x.type.rank
    for at in range(len(pads) // 2):
        begin[-1 - at], end[-1 - at] = pads[2 * at], pads[2 * at + 1]
    return node.add(Pad(tuple(begin), tuple(end), mode, float(node.get("value", 0.0))), x)


def pixel_shuffle(node: AtenNode) -> Value:
    """aten.pixel_shuffle: channels into blocks of the image."""
    x, block = node.value(), int(node.get("upscale_factor"))
    *batch, c, h, w = x.shape
    split_ = node.reshape(x, math.prod(batch), c // block**2, block, block, h, w)
    turned = node.transpose(split_, 0, 1, 4, 2, 5, 3)
    return node.reshape(turned, *batch, c // block**2, h * block, w * block)


def pixel_unshuffle(node: AtenNode) -> Value:
    """aten.pixel_unshuffle: blocks of the image into channels."""
    x, block = node.value(), int(node.get("downscale_factor"))
    *batch, c, h, w = x.shape
    split_ = node.reshape(x, math.prod(batch), c, h // block, block, w // block, block)
    turned = node.transpose(split_, 0, 1, 3, 5, 2, 4)
    return node.reshape(turned, *batch, c * block**2, h // block, w // block)


def channel_shuffle(node: AtenNode) -> Value:
    """aten.channel_shuffle."""
    return node.add(ChannelShuffle(int(node.get("groups"))), node.value())


def embedding(node: AtenNode) -> Value:
    """aten.embedding: rows by number."""
    return node.add(Gather(0), node.value("weight"), node.value("indices"))


def index_select(node: AtenNode) -> Value:
    """aten.index_select."""
    x = node.value()
    return node.add(Gather(node.axis("dim", x.type.rank)), x, node.value("index"))


def index(node: AtenNode) -> Value:
    """aten.index by tensors of whole numbers: one, or several from the first axis on."""
    x = node.value()
    given = [(axis, one) for axis, one in enumerate(node.get("indices")) if one is not None]
    axes, tensors = zip(*given, strict=True)
    if any(one.dtype.kind not in "iu" for one in tensors):
        raise NotSupported("a mask")
    if len(given) == 1:
        return node.add(Gather(axes[0]), x, tensors[0])
    if axes != tuple(range(len(axes))):
        raise NotSupported(f"index tensors along axes {axes}")
    shape = broadcast_shape(*(one.shape for one in tensors))
    columns = [
        node.reshape(node.add(Expand(shape), node.cast(one, np.int64)), *shape, 1)
        for one in tensors
    ]
    return node.add(GatherND(), x, node.add(Concat(len(shape)), *columns))


def gather(node: AtenNode) -> Value:
    """aten.gather."""
    x = node.value()
    return node.add(GatherElements(node.axis("dim", x.type.rank)), x, node.value("index"))


def meshgrid(node: AtenNode) -> tuple[Value, ...]:
    """aten.meshgrid: each vector along an axis of its own."""
    vectors = list(node.get("tensors"))
    axes = list(range(len(vectors)))
    if node.get("indexing", "ij") == "xy":
        axes[:2] = axes[1::-1]
    sizes = [vectors[at].type.elements for at in axes]
    found = []
    for axis, one in zip(axes, vectors, strict=True):
        shape = [1] * len(vectors)
        shape[axis] = one.type.elements
        found.append(node.add(Expand(tuple(sizes)), node.reshape(one, *shape)))
    return tuple(found)


def _triangle(keep: Callable[[Array, int], Array]) -> AtenOperator:
    """Return the function of aten.triu or tril: zeros on the other side of a diagonal."""

    def add(node: AtenNode) -> Value:
        x = node.value()
        kept = keep(np.ones(x.shape[-2:], np.bool_), int(node.get("diagonal", 0)))
        return node.add(Where(), node.const(kept), x, node.const(0, like=x))

    return add


def arange(node: AtenNode) -> Value:
    """aten.arange."""
    return node.const(
        np.arange(node.get("start", 0), node.get("end"), node.get("step", 1)).astype(node.dtype())
    )


def _filled(usual: Any) -> AtenOperator:
    """Return the function of an operator that makes a tensor of one number."""

    def add(node: AtenNode) -> Value:
        like = node.optional("self")
        shape = like.shape if like is not None else tuple(int(s) for s in node.get("size"))
        number = node.get("fill_value", usual)
        dtype = node.get("dtype")
        element = np.asarray(number, node.dtype() if dtype is None else dtype_of(dtype))
        return node.const(np.broadcast_to(element, shape))

    return add


def scalar(node: AtenNode) -> Value:
    """aten.scalar_tensor."""
    return node.const(np.asarray(node.get("s"), node.dtype()))


OPERATORS: AtenOperators = {
    **dict.fromkeys(
        ("clone", "contiguous", "alias", "detach", "detach_", "lift_fresh_copy", "dropout"),
        identity,
    ),
    "feature_dropout": identity,
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "view_copy"), view),
    "flatten": flatten,
    "unflatten": unflatten,
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "permute": permute,
    "transpose": transpose,
    "t": transpose,
    "expand": expand,
    "repeat": repeat,
    "cat": concat,
    "stack": stack,
    "split": split,
    "split_with_sizes": split,
    "chunk": split,
    "unbind": unbind,
    "slice": slice_,
    "narrow": narrow,
    "select": select,
    "flip": flip,
    "roll": roll,
    "pad": pad,
    "constant_pad_nd": pad,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
    "embedding": embedding,
    "index_select": index_select,
    "index": index,
    "gather": gather,
    "arange": arange,
    "meshgrid": meshgrid,
    "triu": _triangle(np.triu),
    "tril": _triangle(np.tril),
    "zeros": _filled(0),
    "ones": _filled(1),
    "full": _filled(0),
    "zeros_like": _filled(0),
    "ones_like": _filled(1),
    "full_like": _filled(0),
    "new_zeros": _filled(0),
    "scalar_tensor": scalar,
}
