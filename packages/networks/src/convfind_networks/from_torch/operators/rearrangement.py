"""Shapes, parts and orders of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from convfind_networks.columns import columns_of_image, image_of_columns
from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import (
    BinaryFunction,
    ChannelShuffle,
    Concat,
    Expand,
    Gather,
    Identity,
    Pad,
    PadMode,
    Slice,
    Split,
    Tile,
    Where,
    Window,
)
from convfind_networks.tensor_type import Array


def identity(node: AtenNode) -> Value:
    """aten.clone, contiguous, alias, detach, dropout in eval mode."""
    if node.get("train", False):
        raise NotSupported("training; call eval() before the export")
    return node.add(Identity(), node.value())


def view(node: AtenNode) -> Value:
    """aten.view, reshape, view_as: -1 is what is left."""
    x = node.value()
    if (like := node.optional("other")) is not None:
        return node.reshape(x, *like.shape)
    sizes = [int(size) for size in node.get("size", node.get("shape", ()))]
    if node.get("dtype") is not None:
        raise NotSupported("the bits of another type")
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
    first, second = ("axis0", "axis1") if node.get("dim0") is None else ("dim0", "dim1")
    a, b = node.axis(first, rank, 0), node.axis(second, rank, 1)
    order = list(range(rank))
    order[a], order[b] = b, a
    return node.transpose(x, *order)


def move(node: AtenNode) -> Value:
    """aten.movedim: dimensions to other places, the rest in order."""
    x = node.value()
    both = (node.get(name) for name in ("source", "destination"))
    source, destination = (
        [axis_of(int(axis), x.type.rank) for axis in ([one] if isinstance(one, int) else one)]
        for one in both
    )
    rest = iter(axis for axis in range(x.type.rank) if axis not in source)
    placed = dict(zip(destination, source, strict=True))
    return node.transpose(
        x, *(placed[at] if at in placed else next(rest) for at in range(x.type.rank))
    )


def expand(node: AtenNode) -> Value:
    """aten.expand, expand_as, broadcast_to: -1 keeps a dimension."""
    x = node.value()
    like = node.optional("other")
    sizes = [int(size) for size in node.get("size")] if like is None else list(like.shape)
    own = (1,) * (len(sizes) - x.type.rank) + x.shape
    return node.add(Expand(tuple(o if s == -1 else s for s, o in zip(sizes, own, strict=True))), x)


def repeat(node: AtenNode) -> Value:
    """aten.repeat, tile."""
    x = node.value()
    repeats = tuple(int(one) for one in node.get("repeats", node.get("dims", ())))
    repeats = (1,) * (x.type.rank - len(repeats)) + repeats
    wide = node.reshape(x, *(1,) * (len(repeats) - x.type.rank), *x.shape)
    return node.add(Tile(repeats), wide)


def repeat_each(node: AtenNode) -> Value:
    """aten.repeat_interleave by one number: each element so many times."""
    x, count = node.value(), node.get("repeats")
    if not isinstance(count, int):
        raise NotSupported("a number of repetitions for each element")
    if node.get("dim") is None:
        x = node.reshape(x, x.type.elements)
    axis = node.axis("dim", x.type.rank)
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    spread = node.add(Expand((*before, count, *after)), node.reshape(x, *before, 1, *after))
    return node.reshape(spread, *before[:-1], before[-1] * count, *after)


def _values(node: AtenNode, name: str) -> list[Value]:
    """Return tensors in the type of the result."""
    given = [one for one in node.get(name, ()) if isinstance(one, Value)]
    if not given or len(given) != len(node.get(name)):
        raise NotSupported(f"{name} are not all tensors")
    return [node.cast(one, node.dtype()) for one in given]


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


def split_evenly(node: AtenNode) -> tuple[Value, ...]:
    """aten.tensor_split: into so many parts, the first ones longer, or at given places."""
    x = node.value()
    axis = node.axis("dim", x.type.rank)
    whole = x.shape[axis]
    if node.get("indices") is not None:
        ends = [*slice_ends(node.get("indices"), whole), whole]
    else:
        count = int(node.get("sections"))
        each, longer = divmod(whole, count)
        ends = [each * at + min(at, longer) for at in range(1, count + 1)]
    parts = zip([0, *ends], ends, strict=False)
    return tuple(node.add(Slice.of(x.shape, {axis: slice(*part)}), x) for part in parts)


def slice_ends(places: Sequence[int], size: int) -> list[int]:
    """Return places that count from the beginning and are inside."""
    return [slice(int(at)).indices(size)[1] for at in places]


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
    axis = node.axis("dim", x.type.rank)
    start = int(node.get("start")) % max(x.shape[axis], 1)
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
        flat = _rolled(node, node.reshape(x, x.type.elements), node.get("shifts"), (0,))
        return node.reshape(flat, *x.shape)
    return _rolled(node, x, node.get("shifts"), dims)


def _rolled(node: AtenNode, x: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(int(dim), x.type.rank)
        cut = -int(shift) % x.shape[axis]
        if cut:
            head, tail = node.add_all(Split(axis, (cut, x.shape[axis] - cut)), x)
            x = node.add(Concat(axis), tail, head)
    return x


def differences(node: AtenNode) -> Value:
    """aten.diff: of neighbours, so many times."""
    x = node.value()
    axis = node.axis("dim", x.type.rank, -1)
    parts = (node.optional("prepend"), x, node.optional("append"))
    x = node.add(Concat(axis), *(one for one in parts if one is not None))
    for _ in range(int(node.get("n", 1))):
        before, after = (
            node.add(Slice.of(x.shape, {axis: part}), x) for part in (slice(-1), slice(1, None))
        )
        is_truth = x.dtype == np.bool_
        x = node.binary(BinaryFunction.XOR if is_truth else BinaryFunction.SUB, after, before)
    return x


def windows(node: AtenNode) -> Value:
    """aten.unfold: windows along a dimension, whose elements are the last one."""
    x = node.value()
    axis = node.axis("dimension", x.type.rank)
    size, step = int(node.get("size")), int(node.get("step"))
    begins = np.arange(0, x.shape[axis] - size + 1, step)
    found = node.add(Gather(axis), x, node.const(begins[:, None] + np.arange(size)))
    order = [at for at in range(x.type.rank + 1) if at != axis + 1]
    return node.transpose(found, *order, axis + 1)


def diagonal(node: AtenNode) -> Value:
    """aten.diagonal: as the last dimension."""
    x = node.value()
    rank, offset = x.type.rank, int(node.get("offset", 0))
    first, second = node.axis("dim1", rank), node.axis("dim2", rank, 1)
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    turned = node.transpose(x, *rest, first, second)
    *others, rows, columns = turned.shape
    places = np.arange(rows * columns).reshape(rows, columns).diagonal(offset).copy()
    flat = node.reshape(turned, *others, rows * columns)
    return node.add(Gather(len(others)), flat, node.const(places))


def _block(node: AtenNode) -> Window:
    """Return the window of aten.im2col or col2im."""
    pads = node.numbers("padding", 2, 0)
    size, stride = node.numbers("kernel_size", 2, 1), node.numbers("stride", 2, 1)
    return Window(size, stride, pads, pads, node.numbers("dilation", 2, 1))


def unfold(node: AtenNode) -> Value:
    """aten.im2col."""
    return columns_of_image(node, _batched(node, 4), _block(node))


def fold(node: AtenNode) -> Value:
    """aten.col2im."""
    image = tuple(int(size) for size in node.get("output_size"))
    return image_of_columns(node, _batched(node, 3), image, _block(node))


def _batched(node: AtenNode, rank: int) -> Value:
    x = node.value()
    if x.type.rank != rank:
        raise NotSupported("an image without a batch")
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


OPERATORS: AtenOperators = {
    **dict.fromkeys(
        ("clone", "contiguous", "alias", "detach", "detach_", "lift_fresh_copy", "dropout"),
        identity,
    ),
    "feature_dropout": identity,
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "view_copy", "view_as", "reshape_as"), view
    ),
    "flatten": flatten,
    "unflatten": unflatten,
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "permute": permute,
    "transpose": transpose,
    "t": transpose,
    "expand": expand,
    "expand_as": expand,
    "broadcast_to": expand,
    "movedim": move,
    "moveaxis": move,
    "swapaxes": transpose,
    "swapdims": transpose,
    "repeat": repeat,
    "tile": repeat,
    "repeat_interleave": repeat_each,
    "cat": concat,
    "concat": concat,
    "concatenate": concat,
    "stack": stack,
    "split": split,
    "split_with_sizes": split,
    "chunk": split,
    "tensor_split": split_evenly,
    "unsafe_split": split,
    "unsafe_chunk": split,
    "unbind": unbind,
    "slice": slice_,
    "narrow": narrow,
    "select": select,
    "flip": flip,
    "roll": roll,
    "diff": differences,
    "unfold": windows,
    "diagonal": diagonal,
    "im2col": unfold,
    "col2im": fold,
    "pad": pad,
    "constant_pad_nd": pad,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
    "meshgrid": meshgrid,
    "triu": _triangle(np.triu),
    "tril": _triangle(np.tril),
}
