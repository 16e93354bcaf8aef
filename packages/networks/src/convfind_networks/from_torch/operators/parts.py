"""Parts of tensors, and tensors that are made of parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import BinaryFunction, Concat, Gather, Slice, Split, Where
from convfind_networks.tensor_type import Array


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


def _triangle(keep: Callable[[Array, int], Array]) -> AtenOperator:
    """Return the function of aten.triu or tril: zeros on the other side of a diagonal."""

    def add(node: AtenNode) -> Value:
        x = node.value()
        kept = keep(np.ones(x.shape[-2:], np.bool_), int(node.get("diagonal", 0)))
        return node.add(Where(), node.const(kept), x, node.const(0, like=x))

    return add


OPERATORS: AtenOperators = {
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
    "triu": _triangle(np.triu),
    "tril": _triangle(np.tril),
}
