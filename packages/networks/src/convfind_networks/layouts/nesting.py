"""`nested`: values that lie within others: where they are joined to, or split from.

Channels last, a concatenation of channels has its pieces side by side in every pixel. A piece
whose pixels lie as far apart as those of the whole needs no copy; so does a concatenation that
only grows from layer to layer, as in dense blocks. Nor do parts of any tensor that are only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from convfind_networks.graph import Graph, Node, Within
from convfind_networks.layouts.assignment import has_layout, is_same_memory, packed_strides
from convfind_networks.layouts.laid_out import LaidOut
from convfind_networks.ops import (
    Activate,
    BatchNorm,
    Binary,
    Concat,
    Convolution,
    Geometry,
    Slice,
    Split,
    Unary,
)

#: Operations whose kernels read rows that lie apart as quickly as packed ones.
_READERS = (Activate, BatchNorm, Binary, Concat, Unary)
#: Their tensors have no more axes, however many of them lie apart.
_MOST_AXES = 6
#: Bytes of a row from which on it is worth its beginning; pixels are shorter.
_LONG_ROW = 128
#: Where a piece of a 3x3 convolution begins in a pixel is a multiple of so many bytes: others
#: have filters for which the quickest kernels store packed pixels only.
_WHOLE_VECTORS = 128
#: Taps along an axis of depthwise convolutions that read and write pixels apart.
_MOST_TAPS = 7


def nested(laid_out: LaidOut, *, alignment: int = 128, convolutions: bool = True) -> LaidOut:
    """Return the graph with all pieces where they belong that may be computed there.

    Args:
        laid_out: the graph.
        alignment: what the bytes in front of a piece must be a multiple of: where steps of the
            device may begin in memory.
        convolutions: whether those read and store pixels that lie apart as quickly as packed ones.
    """
    return replace(laid_out, within=_Nesting(laid_out, alignment, convolutions).result())


def places_in_whole(laid_out: LaidOut, node: Node) -> Iterator[tuple[str, Within]]:
    """Yield what a node joins, or takes apart, and where in the whole it belongs."""
    graph, axis = laid_out.graph, 0
    match node.op:
        case Concat(axis=axis):
            whole, pieces = node.output, node.inputs
        case Split(axis=axis):
            whole, pieces = node.inputs[0], node.outputs
        case Slice(step=step) if all(one == 1 for one in step):
            whole, pieces = node.inputs[0], node.outputs
        case _:
            return
    is_last = whole in laid_out.channels_last
    steps = packed_strides(graph.values[whole].shape, channels_last=is_last)
    start = 0
    if isinstance(node.op, Slice):
        start = sum(at * step for at, step in zip(node.op.begin, steps, strict=True))
    for name in pieces:
        yield name, Within(whole, start, steps)
        start += graph.values[name].shape[axis] * steps[axis]


@dataclass(frozen=True)
class _Nesting:
    laid_out: LaidOut
    alignment: int
    convolutions: bool

    @property
    def graph(self) -> Graph:
        return self.laid_out.graph

    def result(self) -> Mapping[str, Within]:
        found: dict[str, Within] = {}
        readers = self.graph.readers
        outputs = set(self.graph.outputs.values())
        # The last concatenations first: what they join lies where they lie.
        for node in reversed(self.graph.nodes):
            if not self._joins_channels(node):
                continue
            for name, own in places_in_whole(self.laid_out, node):
                place = own.inside(found.get(node.output))
                if (
                    name in self.laid_out.channels_last  # lies as the whole does
                    and name not in found
                    and name not in outputs
                    and node.inputs.count(name) == 1
                    and all(self._reads_apart(one, name) for one in readers[name])
                    and self._can_be_written(name, place)
                ):
                    found[name] = place
        for node in self.graph.nodes:
            if isinstance(node.op, (Split, Slice)) and self._is_packed(node.inputs[0]):
                found.update(self._parts(node))
        return found

    def _is_packed(self, name: str) -> bool:
        """Tell whether a value is computed, into memory in the order of its layout."""
        return name in self.graph.producers and name not in self.laid_out.turned

    def _parts(self, node: Node) -> Iterator[tuple[str, Within]]:
        """Yield the parts of a value whose readers find them in the whole."""
        outputs = set(self.graph.outputs.values())
        for name, place in places_in_whole(self.laid_out, node):
            before = place.start * self.graph.values[name].dtype.itemsize
            is_pixels = self._is_of_channels(node)
            if (
                name not in outputs
                and before % self.alignment == 0
                and _has_rows(self.laid_out, name, place.whole, 1 if is_pixels else _LONG_ROW)
                and all(
                    self._reads_apart(one, name, is_pixels=is_pixels)
                    for one in self.graph.readers[name]
                )
            ):
                yield name, place

    def _is_of_channels(self, node: Node) -> bool:
        """Tell whether a node splits the channels of every pixel."""
        (whole,) = node.inputs
        return (
            isinstance(node.op, Split)
            and node.op.axis == 1
            and whole in self.laid_out.channels_last
            and not is_same_memory(self.graph.values[whole])
        )

    def _joins_channels(self, node: Node) -> bool:
        value = self.graph.values[node.output]
        return (
            isinstance(node.op, Concat)
            and node.op.axis == 1
            and node.output in self.laid_out.channels_last
            and has_layout(value)
            and not is_same_memory(value)
        )

    def _can_be_written(self, name: str, place: Within) -> bool:
        """Tell whether kernels are as quick that write a piece there."""
        node = self.graph.producers.get(name)
        before = place.start * self.graph.values[name].dtype.itemsize
        if node is None or before % self.alignment or not self.convolutions:
            return False
        if isinstance(node.op, Concat):
            return self._joins_channels(node)
        if not isinstance(node.op, Convolution) or node.op.epilogue.residual:
            return False  # what is added to a result lies as the result does
        return _is_depthwise(self.graph, node) or self._stores_apart(node, node.op, before)

    def _stores_apart(self, node: Node, op: Convolution, before: int) -> bool:
        """Tell whether the kernels that are quickest for a convolution may store pixels apart."""
        window = self.graph.values[node.inputs[1]].shape[2:]
        is_near = set(window) == {1} or (window == (3, 3) and before % _WHOLE_VECTORS == 0)
        return is_near and _is_of_neighbours(op.geometry)

    def _reads_apart(self, node: Node, name: str, *, is_pixels: bool = True) -> bool:
        """Tell whether a node's kernels read a value as quickly where its rows lie apart."""
        if isinstance(node.op, Convolution):
            is_data = node.inputs[0] == name and node.inputs.count(name) == 1
            is_quick = _is_depthwise(self.graph, node) or _is_pointwise(self.graph, node)
            return self.convolutions and is_pixels and is_data and is_quick
        rank = self.graph.values[node.output].type.rank
        return isinstance(node.op, _READERS) and rank <= _MOST_AXES


def _has_rows(laid_out: LaidOut, name: str, whole: str, least: int) -> bool:
    """Tell whether a part of a value lies there as rows of so many bytes, and not as one."""
    is_last = name in laid_out.channels_last
    if is_last != (whole in laid_out.channels_last):
        return False
    value, shape = laid_out.graph.values[name], laid_out.graph.values[whole].shape
    order = list(range(len(shape)))
    if is_last:
        order.append(order.pop(1))
    row = value.dtype.itemsize
    for at, axis in reversed(list(enumerate(order))):
        row *= value.shape[axis]
        if value.shape[axis] != shape[axis]:
            return row >= least and any(value.shape[outer] > 1 for outer in order[:at])
    return False


def _is_of_neighbours(step: Geometry) -> bool:
    """Tell whether a convolution of one group neither steps nor reaches over positions."""
    return set((*step.stride, *step.dilation)) == {1} and step.groups == 1 and not step.transposed


def _is_pointwise(graph: Graph, node: Node) -> bool:
    """Tell whether a node is a product of each pixel's channels and nothing else."""
    op = node.op
    assert isinstance(op, Convolution)
    window = graph.values[node.inputs[1]].shape[2:]
    is_padded = any((*op.geometry.padding, *op.geometry.padding_end))
    return set(window) == {1} and not is_padded and _is_of_neighbours(op.geometry)


def _is_depthwise(graph: Graph, node: Node) -> bool:
    """Tell whether a node is a small depthwise convolution of images."""
    op = node.op
    assert isinstance(op, Convolution)
    filters, channels, *window = graph.values[node.inputs[1]].shape
    step = op.geometry
    return (
        len(window) == 2
        and max(window) <= _MOST_TAPS
        and channels == 1
        and filters == step.groups > 1
        and set(step.dilation) == {1}
        and not step.transposed
    )
