"""`Block`: memory that is needed from one node to another, and the values that lie in it.

Several values share a block where nothing is lost: a reshaped value is its source; a residual sum
or an activation may overwrite what nobody reads later; what is concatenated along the slowest
dimension is computed where it belongs, and what is split along it stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from convfind_networks.graph import Graph, Node, Within
from convfind_networks.ops import Concat, Split


@dataclass(frozen=True, slots=True)
class View:
    """Where a value lies: in which block, and so many bytes behind its beginning."""

    block: str
    offset: int


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is needed from one node to another, both included; nodes count from 0."""

    name: str
    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Block) -> bool:
        """Tell whether both are needed at once."""
        return self.first <= other.last and other.first <= self.last


@dataclass(slots=True)
class _Shared:
    """A block in the making: values are merged into it by union."""

    nbytes: int
    first: int
    last: int
    views: dict[str, int] = field(default_factory=dict)  # values and their offsets
    is_fixed: bool = False  # an input of the graph: neither written nor placed


def blocks_of(
    graph: Graph,
    *,
    view_alignment: int = 64,
    channels_last: Set[str] = frozenset(),
    within: Mapping[str, Within] = MappingProxyType({}),
) -> tuple[tuple[Block, ...], Mapping[str, View]]:
    """Return the blocks of a graph's computed values, and where each value lies.

    Inputs are the caller's memory and constants lie elsewhere: neither has a block, nor do values
    that are inputs under another shape; those are in the mapping, in a block of the input's name.
    Blocks of outputs are needed until the end.

    Args:
        graph: the graph; its nodes run in their order.
        view_alignment: what the offset of a value within its block must be a multiple of.
        channels_last: the values that lie so.
        within: values that lie in others, whose strides they have: their blocks are the others'.
    """
    return _Sharing(graph, view_alignment, channels_last, within).result()


class _Sharing:
    def __init__(
        self, graph: Graph, alignment: int, channels_last: Set[str], within: Mapping[str, Within]
    ) -> None:
        self._graph = graph
        self._alignment = alignment
        self._channels_last = channels_last
        self._within = within
        self._last_read = _last_reads(graph)
        self._of: dict[str, _Shared] = {}
        for name in graph.inputs:
            kind = graph.values[name].type
            self._of[name] = _Shared(kind.nbytes, -1, len(graph.nodes), {name: 0}, is_fixed=True)

    def result(self) -> tuple[tuple[Block, ...], dict[str, View]]:
        for step, node in enumerate(self._graph.nodes):
            for name in node.outputs:
                self._place(step, node, name)
            if isinstance(node.op, Concat):
                self._gather(node, node.op)
        views, blocks = {}, []
        for shared in {id(one): one for one in self._of.values()}.values():
            name = next(value for value, offset in shared.views.items() if not offset)
            views.update({value: View(name, offset) for value, offset in shared.views.items()})
            if not shared.is_fixed:
                blocks.append(Block(name, shared.nbytes, shared.first, shared.last))
        return tuple(sorted(blocks, key=lambda block: (block.first, block.name))), views

    def _place(self, step: int, node: Node, name: str) -> None:
        """Let a result share a block, or give it one of its own."""
        kind = self._graph.values[name].type
        last = max(self._last_read.get(name, step), step)
        if name in self._of or name in self._within:
            self._place_within(step, last, name, kind.dtype.itemsize)
            return
        source, offset = self._source(step, node, name)
        if source is None:
            self._of[name] = _Shared(kind.nbytes, step, last, {name: 0})
            return
        shared = self._of[source]
        shared.views[name] = shared.views[source] + offset
        shared.last = max(shared.last, last)
        self._of[name] = shared

    def _place_within(self, step: int, last: int, name: str, itemsize: int) -> None:
        """Let a result lie within another, or where some pieces of its own lie already.

        The whole has memory from the first of its pieces on.
        """
        place = self._within.get(name)
        whole, start = (name, 0) if place is None else (place.whole, place.start)
        if whole not in self._of:
            nbytes = self._graph.values[whole].type.nbytes
            self._of[whole] = _Shared(nbytes, step, last, {whole: 0})
        shared = self._of[name] = self._of[whole]
        shared.views[name] = shared.views[whole] + start * itemsize
        shared.last = max(shared.last, last)

    def _source(self, step: int, node: Node, name: str) -> tuple[str | None, int]:
        """Return the input in whose memory a result lies, and how far behind its beginning."""
        first = node.inputs[0] if node.inputs else ""
        if node.op.is_view:
            return (first if first in self._of else None), 0
        if isinstance(node.op, Split) and first in self._of:
            before = node.outputs[: node.outputs.index(name)]
            offset = sum(self._graph.values[one].type.nbytes for one in before)
            if self._is_slowest(first, node.op.axis) and offset % self._alignment == 0:
                return first, offset
        wanted = self._graph.values[name].type
        for at in node.op.in_place:
            source = node.inputs[at] if at < len(node.inputs) else ""
            shared = self._of.get(source)
            if shared is None or shared.is_fixed or self._graph.values[source].type != wanted:
                continue
            if source in self._within:  # others lie between its rows
                continue
            if (source in self._channels_last) != (name in self._channels_last):
                continue
            if self._is_free_after(step, node, at, shared):
                return source, 0
        return None, 0

    def _is_free_after(self, step: int, node: Node, at: int, shared: _Shared) -> bool:
        """Tell whether nobody else reads what an input of a node overlaps, now or later."""
        source = node.inputs[at]
        others = {*node.inputs[:at], *node.inputs[at + 1 :]}
        begin = shared.views[source]
        end = begin + self._reach(source)
        for value, offset in shared.views.items():
            overlaps = offset < end and begin < offset + self._reach(value)
            if overlaps and (value in others or self._last_read.get(value, -1) > step):
                return False
        return True

    def _reach(self, name: str) -> int:
        """Return the bytes from a value's first element to behind its last."""
        kind = self._graph.values[name].type
        place = self._within.get(name)
        if place is None or not kind.elements:
            return kind.nbytes
        ends = zip(kind.shape, place.strides, strict=True)
        return (1 + sum((size - 1) * step for size, step in ends)) * kind.dtype.itemsize

    def _is_slowest(self, name: str, axis: int) -> bool:
        """Tell whether slices along an axis of a value lie one behind the other."""
        shape = self._graph.values[name].shape
        order = list(range(len(shape)))
        if name in self._channels_last:
            order.append(order.pop(1))
        return math.prod(shape[one] for one in order[: order.index(axis)]) == 1

    def _gather(self, node: Node, op: Concat) -> None:
        """Let what is concatenated lie in the result, where it can be computed there."""
        if not self._is_slowest(node.output, op.axis):
            return
        whole = self._of[node.output]
        offset = 0
        for name in node.inputs:
            size = self._graph.values[name].type.nbytes
            part = self._of.get(name)
            if (
                part is not None
                and part is not whole
                and not part.is_fixed
                and node.inputs.count(name) == 1
                and part.nbytes == size  # all of it, not a piece of something larger
                and offset % self._alignment == 0
            ):
                for value, at in part.views.items():
                    whole.views[value] = offset + at
                    self._of[value] = whole
                whole.first = min(whole.first, part.first)
                whole.last = max(whole.last, part.last)
            offset += size


def _last_reads(graph: Graph) -> dict[str, int]:
    """Return the last node that reads each value; outputs are read after the last one."""
    last = {name: step for step, node in enumerate(graph.nodes) for name in node.inputs}
    last.update({name: len(graph.nodes) for name in graph.outputs.values()})
    return last
