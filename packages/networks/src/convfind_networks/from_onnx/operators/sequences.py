"""Sequences of tensors, and tensors that may be absent: known when a model is read."""

from __future__ import annotations

import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.from_onnx.sequence import ValueSequence
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported, axis_of
from convfind_networks.ops import Concat, Identity, Split


def construct(node: OnnxNode) -> ValueSequence:
    """SequenceConstruct, and SequenceEmpty, which has no inputs."""
    return ValueSequence(tuple(node.values()))


def at(node: OnnxNode) -> Value:
    """SequenceAt."""
    values = node.sequence(0)
    return values[_place(node, 1, len(values))]


def insert(node: OnnxNode) -> ValueSequence:
    """SequenceInsert: before a place, or behind the last."""
    values = node.sequence(0)
    count = len(values)
    place = count if node.optional(2) is None else int(node.array(2, "the place").item())
    if not -count <= place <= count:
        raise NotSupported(f"place {place} of {count}")
    place = place + count if place < 0 else place
    return ValueSequence((*values[:place], node.input(1), *values[place:]))


def erase(node: OnnxNode) -> ValueSequence:
    """SequenceErase: at a place, or the last."""
    values = node.sequence(0)
    place = len(values) - 1 if node.optional(1) is None else _place(node, 1, len(values))
    return ValueSequence((*values[:place], *values[place + 1 :]))


def length(node: OnnxNode) -> Value:
    """SequenceLength."""
    return node.const(np.asarray(len(node.sequence(0)), np.int64))


def concat(node: OnnxNode) -> Value:
    """ConcatFromSequence, along an axis that is there or a new one."""
    values = node.sequence(0)
    if not values:
        raise NotSupported("an empty sequence")
    is_new = bool(node.integer("new_axis", 0))
    axis = axis_of(node.integer("axis", 0), values[0].type.rank + is_new)
    if is_new:
        values = tuple(node.reshape(x, *x.shape[:axis], 1, *x.shape[axis:]) for x in values)
    return node.add(Concat(axis), *values)


def split(node: OnnxNode) -> ValueSequence:
    """SplitToSequence: pieces of a size, of several sizes, or of size 1 without their axis."""
    x = node.input(0)
    axis = axis_of(node.integer("axis", 0), x.type.rank)
    size = x.shape[axis]
    if node.optional(1) is None:
        sizes = (1,) * size
    else:
        given = node.array(1, "split")
        each = int(given.item()) if not given.ndim else 0
        sizes = tuple(map(int, given)) if given.ndim else _pieces(size, each)
    pieces = node.add_all(Split(axis, sizes), x)
    if node.optional(1) is None and not node.integer("keepdims", 1):
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        pieces = tuple(node.reshape(piece, *shape) for piece in pieces)
    return ValueSequence(pieces)


def _pieces(size: int, each: int) -> tuple[int, ...]:
    """Return pieces of one size, the last of which may be smaller."""
    if each < 1:
        raise NotSupported(f"pieces of size {each}")
    return tuple(min(each, size - begin) for begin in range(0, size, each))


def _place(node: OnnxNode, index: int, count: int) -> int:
    """Return a constant place, which may count from behind."""
    place = int(node.array(index, "the place").item())
    if not -count <= place < count:
        raise NotSupported(f"place {place} of {count}")
    return place % count


def present(node: OnnxNode) -> Value:
    """Optional and OptionalGetElement of a tensor: the tensor."""
    return node.add(Identity(), node.input(0))


def is_present(node: OnnxNode) -> Value:
    """OptionalHasElement."""
    return node.const(np.asarray(bool(node.inputs) and node.inputs[0] is not None))


OPERATORS: OnnxOperators = {
    "SequenceConstruct": construct,
    "SequenceEmpty": construct,
    "SequenceAt": at,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceLength": length,
    "ConcatFromSequence": concat,
    "SplitToSequence": split,
    "Optional": present,
    "OptionalGetElement": present,
    "OptionalHasElement": is_present,
}
