"""`nested`: values that lie between others' channels: where they are joined to, or split from.

Channels last, a concatenation of channels has its pieces side by side in every pixel. A piece
whose pixels lie as far apart as those of the whole needs no copy; so does a concatenation that
only grows from layer to layer, as in dense blocks. Nor do pieces of a split that are only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from convfind_networks.graph import Graph, Node, Within
from convfind_networks.layouts.assignment import has_layout, is_same_memory
from convfind_networks.layouts.laid_out import LaidOut
from convfind_networks.ops import (
    Activate,
    BatchNorm,
    Binary,
    Concat,
    Convolution,
    Geometry,
    Split,
    Unary,
)

#: Operations whose kernels read pixels that lie apart as quickly as packed ones.
_READERS = (Activate, BatchNorm, Binary, Concat, Unary)
#: Where a piece of a 3x3 convolution begins in a pixel is a multiple of so many bytes: others
#: have filters for which the quickest kernels store packed pixels only.
_WHOLE_VECTORS = 128
#: Taps along an axis of depthwise convolutions that read and write pixels apart.
_MOST_TAPS = 7


def nested(laid_out: LaidOut, *, alignment: int = 128) -> LaidOut:
    """Return the graph with all pieces where they belong that may be computed there.

    Args:
        laid_out: the graph.
        alignment: what the bytes in front of a piece in a pixel must be a multiple of: where
            steps of the device may begin in memory.
    """
    return replace(laid_out, within=_Nesting(laid_out, alignment).result())


@dataclass(frozen=True)
class _Nesting:
    laid_out: LaidOut
    alignment: int

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
            whole = found.get(node.output, Within(node.output, 0))
            for name, channel in self._pieces(node):
                place = replace(whole, channel=whole.channel + channel)
                if (
                    name not in found
                    and name not in outputs
                    and node.inputs.count(name) == 1
                    and all(_reads_apart(self.graph, one, name) for one in readers[name])
                    and self._can_be_written(name, place)
                ):
                    found[name] = place
        for node in self.graph.nodes:
            if self._takes_channels_apart(node):
                found.update(self._split(node))
        return found

    def _takes_channels_apart(self, node: Node) -> bool:
        """Tell whether a node splits the channels of a computed value, in every pixel."""
        whole = node.inputs[0] if node.inputs else ""
        return (
            isinstance(node.op, Split)
            and node.op.axis == 1
            and whole in self.laid_out.channels_last
            and whole in self.graph.producers
            and not is_same_memory(self.graph.values[whole])
        )

    def _split(self, node: Node) -> Iterator[tuple[str, Within]]:
        """Yield the pieces of a split whose readers find them in the whole."""
        outputs, channel = set(self.graph.outputs.values()), 0
        for name in node.outputs:
            value = self.graph.values[name]
            if (
                name not in outputs
                and channel * value.dtype.itemsize % self.alignment == 0
                and all(_reads_apart(self.graph, one, name) for one in self.graph.readers[name])
            ):
                yield name, Within(node.inputs[0], channel)
            channel += value.shape[1]

    def _joins_channels(self, node: Node) -> bool:
        value = self.graph.values[node.output]
        return (
            isinstance(node.op, Concat)
            and node.op.axis == 1
            and node.output in self.laid_out.channels_last
            and has_layout(value)
            and not is_same_memory(value)
        )

    def _pieces(self, node: Node) -> Iterator[tuple[str, int]]:
        """Yield the pieces of a concatenation that lie as it does, and their first channels."""
        channel = 0
        for name in node.inputs:
            if name in self.laid_out.channels_last:
                yield name, channel
            channel += self.graph.values[name].shape[1]

    def _can_be_written(self, name: str, place: Within) -> bool:
        """Tell whether kernels are as quick that write a piece there."""
        node = self.graph.producers.get(name)
        before = place.channel * self.graph.values[name].dtype.itemsize
        if node is None or before % self.alignment:
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


def _reads_apart(graph: Graph, node: Node, name: str) -> bool:
    """Tell whether a node's kernels read a value as quickly where its pixels lie apart."""
    if isinstance(node.op, Convolution):
        is_data = node.inputs[0] == name and node.inputs.count(name) == 1
        return is_data and (_is_depthwise(graph, node) or _is_pointwise(graph, node))
    return isinstance(node.op, _READERS)


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
