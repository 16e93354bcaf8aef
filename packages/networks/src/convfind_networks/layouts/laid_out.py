"""`LaidOut`: a graph whose values have layouts, with the copies between them as nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from convfind_networks.graph import Graph, Node, Value, Within
from convfind_networks.layouts.assignment import (
    Copy,
    LayoutPlan,
    has_layout,
    is_same_memory,
    packed_strides,
    view_layouts,
)
from convfind_networks.ops import Identity, LayoutCopy, Op, Reshape


@dataclass(frozen=True, eq=False)
class LaidOut:
    """A graph, and which of its values lie channels-last; all others lie channels-first.

    Constants may be put down in either layout and are in no set. Values ``within`` others have
    no memory of their own, and the others' strides; the others are within none. Matrices that are
    ``turned`` lie transposed, channels-first: their memory is that of what a transpose would read.
    """

    graph: Graph
    channels_last: frozenset[str]
    within: Mapping[str, Within] = field(default_factory=lambda: MappingProxyType({}))
    turned: frozenset[str] = frozenset()

    def own_strides(self, name: str) -> tuple[int, ...] | None:
        """Return the strides of a value that is not packed as its layout has it; else None.

        It lies within another one, or its matrices are turned.
        """
        if name in self.turned:
            *outer, rows, columns = self.graph.values[name].shape
            *steps, column, row = packed_strides((*outer, columns, rows), channels_last=False)
            return (*steps, row, column)
        place = self.within.get(name)
        return None if place is None else place.strides


def lay_out(graph: Graph, plan: LayoutPlan) -> LaidOut:
    """Return a graph with the copies of a layout plan as nodes of its own.

    A copy of what is the same memory in both layouts is an `Identity`, and a transpose whose result
    is its input's memory a `Reshape`: both cost nothing.
    """
    return _Copying(graph, plan).result()


class _Copying:
    def __init__(self, graph: Graph, plan: LayoutPlan) -> None:
        self._graph = graph
        self._plan = plan
        self._values = dict(graph.values)
        #: The value that is another one in a layout.
        self._names: dict[tuple[str, bool], str] = {}
        self._last: set[str] = set()
        self._turned: set[str] = set()
        self._copies: defaultdict[str | None, list[Copy]] = defaultdict(list)
        for copy in plan.copies:
            self._copies[copy.before].append(copy)

    def result(self) -> LaidOut:
        for name in self._graph.inputs:
            self._lies(name, name, self._plan.inputs)
        nodes = list(self._nodes())
        outputs = {
            public: self._names.get((name, self._plan.outputs), name)
            for public, name in self._graph.outputs.items()
        }
        made = Graph(self._graph.inputs, outputs, tuple(nodes), self._values)
        return LaidOut(made, frozenset(self._last), turned=frozenset(self._turned))

    def _nodes(self) -> Iterator[Node]:
        for node in self._graph.nodes:
            for copy in self._copies[node.output]:
                yield self._copied(copy)
            reads, writes = self._plan.nodes[node.output]
            inputs = tuple(self._names.get((name, reads), name) for name in node.inputs)
            for name in node.outputs:
                self._lies(name, name, writes)
            yield Node(self._op(node), inputs, node.outputs, node.name)
        for copy in self._copies[None]:
            yield self._copied(copy)

    def _op(self, node: Node) -> Op:
        layouts = self._plan.nodes[node.output]
        if layouts in view_layouts(self._graph, node):
            if layouts == (False, False):
                self._turned.add(node.output)
            return Reshape(self._values[node.output].type.shape)
        return node.op

    def _copied(self, copy: Copy) -> Node:
        value = self._values[self._names[copy.value, not copy.channels_last]]
        name = f"{copy.value} channels {'last' if copy.channels_last else 'first'}"
        self._values[name] = Value(name, value.type)
        self._lies(copy.value, name, copy.channels_last)
        op = Identity() if is_same_memory(value) else LayoutCopy(copy.channels_last)
        return Node(op, (value.name,), (name,), name)

    def _lies(self, value: str, name: str, last: bool) -> None:
        if has_layout(self._values[name]):
            self._names[value, last] = name
            if last:
                self._last.add(name)
