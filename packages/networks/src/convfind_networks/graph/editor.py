"""`GraphEditor`: replaces nodes of a graph while a pass walks over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from convfind_networks.graph.graph import Graph
from convfind_networks.graph.node import Node
from convfind_networks.graph.value import Value
from convfind_networks.tensor_type import Array, TensorType


class GraphEditor:
    """A graph while a pass changes it; `graph` returns the changed one.

    Nodes are visited in order. A replacement stands where the last of its nodes stood and
    keeps the name of its result, so that its inputs are computed before and its readers need no
    change.
    """

    def __init__(self, graph: Graph) -> None:
        self._inputs = graph.inputs
        self._outputs = dict(graph.outputs)
        self._values = dict(graph.values)
        self._slots: list[list[Node]] = [[node] for node in graph.nodes]
        self._slot_of = {
            name: slot for slot, node in enumerate(graph.nodes) for name in node.outputs
        }
        self._producers = dict(graph.producers)
        self._uses: Counter[str] = Counter(graph.uses)

    def __iter__(self) -> Iterator[Node]:
        """Visit the nodes that there are by then, in order."""
        for slot in self._slots:
            for node in tuple(slot):
                yield self._producers[node.output]

    def value(self, name: str) -> Value:
        """Return a value by name."""
        return self._values[name]

    def data(self, name: str) -> Array | None:
        """Return the contents of a constant, None for other values."""
        return self._values[name].data

    def producer(self, name: str) -> Node | None:
        """Return the node that computes a value."""
        return self._producers.get(name)

    def position(self, node: Node) -> int:
        """Return a number that grows with the order of the nodes."""
        return self._slot_of[node.output]

    def is_read_once(self, name: str) -> bool:
        """Tell whether nothing but one input of one node reads a value."""
        return self._uses[name] == 1 and name not in self._outputs.values()

    def replace(self, old: Sequence[Node], *new: Node) -> None:
        """Put nodes in the place of others, the last of which computes the same results."""
        place = self._slot_of[old[-1].output]
        for node in old:
            self._slots[self._slot_of[node.output]].remove(node)
            self._uses.subtract(node.inputs)
            for name in node.outputs:
                del self._producers[name]
        self._slots[place].extend(new)
        for node in new:
            self._uses.update(node.inputs)
            for name in node.outputs:
                self._producers[name] = node
                self._slot_of[name] = place

    def alias(self, node: Node, name: str) -> None:
        """Remove a node whose result is a value that is there already."""
        self.replace([node])
        result = node.output
        self._outputs = {k: name if v == result else v for k, v in self._outputs.items()}
        self._uses[name] += self._uses.pop(result, 0)
        # Those with several results are once each.
        for reader in {one.output: one for one in self._producers.values()}.values():
            if result in reader.inputs:
                inputs = tuple(name if one == result else one for one in reader.inputs)
                self._rename(reader, inputs)

    def constant(self, data: Array, like: str) -> str:
        """Add a constant and return its name, which begins as that of a value."""
        name = self._unused(like)
        self._values[name] = Value.constant(name, data)
        return name

    def result(self, kind: TensorType, like: str) -> str:
        """Add a value that a new node will compute, and return its name."""
        name = self._unused(like)
        self._values[name] = Value(name, kind)
        return name

    def graph(self) -> Graph:
        """Return the graph as it is now."""
        nodes = tuple(node for slot in self._slots for node in slot)
        used = {*self._inputs, *self._outputs.values()}
        for node in nodes:
            used.update(node.inputs, node.outputs)
        values = {name: value for name, value in self._values.items() if name in used}
        return Graph(self._inputs, self._outputs, nodes, values)

    def _rename(self, node: Node, inputs: tuple[str, ...]) -> None:
        renamed = Node(node.op, inputs, node.outputs, node.name)
        slot = self._slots[self._slot_of[node.output]]
        slot[slot.index(node)] = renamed
        for name in node.outputs:
            self._producers[name] = renamed

    def _unused(self, hint: str) -> str:
        number = 1
        while f"{hint}.{number}" in self._values:
            number += 1
        return f"{hint}.{number}"
