"""Shapes and orders of elements, and padding."""

from __future__ import annotations

import math

from convfind_networks.columns import columns_of_image, image_of_columns
from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import (
    ChannelShuffle,
    Expand,
    Identity,
    Pad,
    PadMode,
    Tile,
    Window,
)


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
    "im2col": unfold,
    "col2im": fold,
    "pad": pad,
    "constant_pad_nd": pad,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
    "meshgrid": meshgrid,
}
