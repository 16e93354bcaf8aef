"""`merge_branches`: convolutions of one value that are added up are one with their filters' sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from convfind_networks.graph import GraphEditor, Node
from convfind_networks.ops import Binary, BinaryFunction, Convolution
from convfind_networks.ops.geometry import Geometry
from convfind_networks.ops.op import widened
from convfind_networks.tensor_type import Array

_SIGNS = {Binary(BinaryFunction.ADD): 1.0, Binary(BinaryFunction.SUB): -1.0}
#: Types whose sums of filters are rounded as finely as each of them: others lose small ones.
_WIDE = (np.float32, np.float64)

#: The value whose channels a node scales and shifts, and by how much, if it does no more.
ScaleOf = Callable[[Node], tuple[str, Array, Array] | None]


@dataclass(frozen=True, slots=True)
class _Branch:
    """A convolution of x without activation, in float64, and the nodes that compute it."""

    x: str
    geometry: Geometry
    weights: Array
    bias: Array
    nodes: tuple[Node, ...]

    @property
    def is_depthwise(self) -> bool:
        return self.weights.shape[1] == 1 and self.geometry.groups == len(self.weights)

    def times(self, factor: float) -> _Branch:
        """Return the branch with its result multiplied."""
        return replace(self, weights=self.weights * factor, bias=self.bias * factor)

    def plus(self, other: _Branch) -> _Branch | None:
        """Return the sum, where the other's taps are among the own ones and groups are alike."""
        own = self.geometry
        if (self.x, own.stride, own.groups) != (
            other.x,
            other.geometry.stride,
            other.geometry.groups,
        ):
            return None
        places = []
        for axis, (taps, more) in enumerate(
            zip(self.weights.shape[2:], other.weights.shape[2:], strict=True)
        ):
            step = own.dilation[axis]
            first, off = divmod(own.padding[axis] - other.geometry.padding[axis], step)
            if off or first < 0 or first + more > taps:
                return None
            if more > 1 and other.geometry.dilation[axis] != step:
                return None
            places.append(slice(first, first + more))
        weights = self.weights.copy()
        weights[(slice(None), slice(None), *places)] += other.weights
        nodes = (*self.nodes, *other.nodes)
        return replace(self, weights=weights, bias=self.bias + other.bias, nodes=nodes)


def merge_branches(edit: GraphEditor, node: Node, scale_of: ScaleOf) -> bool:
    """Make one convolution of a sum or difference of two; say whether that was possible.

    The other one may be a scale of channels, or, where groups have one channel, the value itself.
    """
    sign = _SIGNS.get(node.op) if isinstance(node.op, Binary) else None
    if sign is None or edit.value(node.output).dtype not in _WIDE:
        return False
    left, right = node.inputs
    if edit.value(left).shape != edit.value(right).shape:
        return False
    for name, other, own, others in ((left, right, 1.0, sign), (right, left, sign, 1.0)):
        first = _convolution(edit, name)
        if first is None:
            continue
        second = _convolution(edit, other) or _pointwise(edit, other, first, scale_of)
        if second is None:
            continue
        first, second = first.times(own), second.times(others)
        whole = first.plus(second) or second.plus(first)
        if whole is not None:
            _replace(edit, node, whole)
            return True
    return False


def _convolution(edit: GraphEditor, name: str) -> _Branch | None:
    node = edit.producer(name)
    if node is None or not isinstance(node.op, Convolution) or not edit.is_read_once(name):
        return None
    geometry, epilogue = node.op.geometry, node.op.epilogue
    if geometry.transposed or epilogue.activation or epilogue.residual:
        return None
    x, *others = node.inputs
    known = [widened(data) for data in map(edit.data, others) if data is not None]
    if len(known) < len(others):
        return None
    weights, *more = known
    return _Branch(x, geometry, weights, more[0] if more else np.zeros(len(weights)), (node,))


def _pointwise(edit: GraphEditor, name: str, beside: _Branch, scale_of: ScaleOf) -> _Branch | None:
    """Return what scales the channels of the value that another branch reads, in its groups."""
    channels, groups = len(beside.weights), beside.geometry.groups
    width = beside.weights.shape[1]
    factor, shift, nodes = np.ones(channels), np.zeros(channels), tuple[Node, ...]()
    if name == beside.x:
        if not beside.is_depthwise:
            return None
    else:
        node = edit.producer(name)
        scale = None if node is None else scale_of(node)
        if node is None or scale is None or scale[0] != beside.x:
            return None
        _, factor, shift = scale
        nodes = (node,) if edit.is_read_once(name) else ()  # else others still read it
    if edit.value(beside.x).shape[1] != channels or groups * width != channels:
        return None
    diagonal = np.zeros((channels, width))
    diagonal[np.arange(channels), np.arange(channels) % width] = factor
    rank = beside.weights.ndim - 2
    geometry = replace(Geometry.plain(rank), groups=groups)
    return _Branch(
        beside.x, geometry, diagonal.reshape(*diagonal.shape, *(1,) * rank), shift, nodes
    )


def _replace(edit: GraphEditor, node: Node, whole: _Branch) -> None:
    """Put one convolution in the place of the nodes of a sum."""
    dtype = edit.value(node.output).dtype
    (convolution, *_) = (one for one in whole.nodes if isinstance(one.op, Convolution))
    _, w, *_ = convolution.inputs
    inputs = [whole.x, edit.constant(whole.weights.astype(dtype), like=w)]
    op = Convolution(whole.geometry)
    if whole.bias.any():
        inputs.append(edit.constant(whole.bias.astype(dtype), like=f"{node.output}.bias"))
        op = replace(op, epilogue=replace(op.epilogue, bias=True))
    made = Node(op, tuple(inputs), node.outputs, convolution.name)
    edit.replace([*whole.nodes, node], made)
