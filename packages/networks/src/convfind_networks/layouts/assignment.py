"""`assign_layouts`: the cheapest layout of every value, by dynamic programming.

Nodes are visited in order. A state says in which layouts each value that is still read exists;
for each state the cheapest way to it is kept. This is exact: on a chain it is a shortest path, and
beside a residual two values are alive. Only where very many values are alive at once are the worst
of the states forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from convfind_networks.graph import Graph, Node, Value
from convfind_networks.ops import MatMul, Transpose

#: States that are kept after each node: all of them while up to seven values are alive.
MOST_STATES = 4096

#: Cost of a node with its inputs and its result channels-last, or not; infinite if impossible.
NodeCost = Callable[[Node, bool, bool], float]
#: Cost of a copy of a value into the other layout.
CopyCost = Callable[[Value], float]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a value into the other layout, made before a node; None: before the outputs."""

    value: str
    channels_last: bool
    before: str | None


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """The layouts of a network: how each node runs, and which copies are made.

    ``nodes`` says for each node, by the name of its first result, whether it reads and whether it
    writes channels-last; ``inputs`` and ``outputs`` say how those of the graph lie.
    """

    nodes: Mapping[str, tuple[bool, bool]]
    copies: tuple[Copy, ...]
    cost: float
    inputs: bool = False
    outputs: bool = False


#: The layouts in which a value exists: channels-first, channels-last, both.
_FIRST, _LAST, _BOTH = frozenset({False}), frozenset({True}), frozenset({False, True})
#: How a node may read and write.
_PAIRS = ((False, False), (False, True), (True, False), (True, True))
_State = tuple[tuple[str, frozenset[bool]], ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """The cheapest way to a state: what it cost, and its last decision."""

    cost: float
    before: _Way | None = None
    node: str = ""
    layouts: tuple[bool, bool] = (False, False)
    copied: tuple[str, ...] = ()

    def back(self) -> Iterable[_Way]:
        way: _Way | None = self
        while way is not None:
            yield way
            way = way.before


def has_layout(value: Value) -> bool:
    """Tell whether a value can lie either way: a computed one with channels and an image."""
    return not value.is_constant and 3 <= value.type.rank <= 5


def is_same_memory(value: Value) -> bool:
    """Tell whether a tensor is the same memory in both layouts."""
    shape = value.type.shape
    return shape[1] == 1 or value.type.elements == shape[0] * shape[1]


def packed_strides(shape: tuple[int, ...], *, channels_last: bool) -> tuple[int, ...]:
    """Return where the elements of a packed tensor lie: strides in elements, by dimension."""
    order = list(range(len(shape)))
    if channels_last:
        order.append(order.pop(1))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def follows_layout(graph: Graph, node: Node) -> bool:
    """Tell whether a node can run channels-last."""
    values = [graph.values[name] for name in (*node.inputs, *node.outputs)]
    return node.op.follows_layout and all(has_layout(one) or one.is_constant for one in values)


def view_layouts(graph: Graph, node: Node) -> tuple[tuple[bool, bool], ...]:
    """Return how a transpose reads and writes without a copy: channels move to the end, or back.

    Channels-last memory is that of a channels-first tensor whose last dimension are the channels.
    Without layouts a copy is spared where products read matrices that lie transposed.
    """
    if not isinstance(node.op, Transpose):
        return ()
    order = node.op.order
    if _is_of_matrices(order) and _is_only_multiplied(graph, node):
        return ((False, False),)
    values = [graph.values[name] for name in (*node.inputs, *node.outputs)]
    if not all(map(has_layout, values)):
        return ()
    spatial = tuple(range(1, len(order) - 1))
    from_end = order == (0, len(order) - 1, *spatial)
    to_end = order == (0, *(axis + 1 for axis in spatial), 1)
    return ((False, True),) * from_end + ((True, False),) * to_end


def _is_of_matrices(order: tuple[int, ...]) -> bool:
    """Tell whether an order swaps the last two dimensions, and no others."""
    rank = len(order)
    return rank > 1 and order == (*range(rank - 2), rank - 1, rank - 2)


def _is_only_multiplied(graph: Graph, node: Node) -> bool:
    """Tell whether nothing but products of matrices reads what a node makes of computed values."""
    return (
        not any(graph.values[name].is_constant for name in node.inputs)
        and node.output not in graph.outputs.values()
        and {type(one.op) for one in graph.readers[node.output]} == {MatMul}
    )


def assign_layouts(
    graph: Graph,
    node_cost: NodeCost,
    copy_cost: CopyCost,
    *,
    channels_last_inputs: bool = False,
    channels_last_outputs: bool = False,
    most_states: int = MOST_STATES,
) -> LayoutPlan:
    """Choose the layouts that cost least together.

    Args:
        graph: the graph.
        node_cost: cost of a node that reads and writes channels-last or not; infinite where no
            one can run it so. Nodes that `follows_layout` excludes are asked about False only.
        copy_cost: cost of a copy of a value into the other layout.
        channels_last_inputs: how the caller's inputs lie.
        channels_last_outputs: how the caller wants the outputs.
        most_states: states that are kept.
    """
    search = _Search(graph, node_cost, copy_cost)
    states = search.begin(channels_last_inputs)
    for node in graph.nodes:
        states = search.after(node, states)
        if len(states) > most_states:
            states = dict(sorted(states.items(), key=lambda item: item[1].cost)[:most_states])
    return search.finished(states, channels_last_outputs)


class _Search:
    """The states before and after each node, and the cheapest way to each."""

    def __init__(self, graph: Graph, node_cost: NodeCost, copy_cost: CopyCost) -> None:
        self._graph = graph
        self._node_cost = node_cost
        self._copy_cost = copy_cost
        self._left = dict(graph.uses)
        self._inputs = False

    def begin(self, inputs: bool) -> dict[_State, _Way]:
        """Return the state in which there are only inputs."""
        self._inputs = inputs
        given = _LAST if inputs else _FIRST
        alive = (n for n in self._graph.inputs if self._has_layout(n) and self._left.get(n))
        return {tuple((name, given) for name in alive): _Way(0.0)}

    def after(self, node: Node, states: Mapping[_State, _Way]) -> dict[_State, _Way]:
        """Return the states after a node, from those before it."""
        for name in node.inputs:
            self._left[name] -= 1
        pairs = _PAIRS if follows_layout(self._graph, node) else _PAIRS[:1]
        costs = {
            pair: cost for pair in pairs if math.isfinite(cost := self._node_cost(node, *pair))
        }
        costs.update(dict.fromkeys(view_layouts(self._graph, node), 0.0))
        following: dict[_State, _Way] = {}
        for state, way in states.items():
            for pair, cost in costs.items():
                layouts = dict(state)
                copied = self._copies(node, layouts, pair[0])
                total = way.cost + cost + self._cost_of(copied)
                layouts.update(dict.fromkeys(copied, _BOTH))
                layouts.update(self._results(node, pair[1]))
                after = tuple((n, kinds) for n, kinds in layouts.items() if self._left.get(n))
                if after not in following or total < following[after].cost:
                    following[after] = _Way(total, way, node.output, pair, copied)
        return following

    def finished(self, states: Mapping[_State, _Way], wanted: bool) -> LayoutPlan:
        """Return the best way, with the outputs as the caller wants them."""
        outputs = set(self._graph.outputs.values())
        ends = []
        for state, way in states.items():
            copied = tuple(n for n, kinds in state if n in outputs and wanted not in kinds)
            ends.append(_Way(way.cost + self._cost_of(copied), way, copied=copied))
        if not ends:
            return LayoutPlan({}, (), math.inf, self._inputs, wanted)
        best = min(ends, key=lambda way: way.cost)
        nodes: dict[str, tuple[bool, bool]] = {}
        copies: list[Copy] = []
        for way in reversed(list(best.back())):
            into = way.layouts[0] if way.node else wanted
            copies += [Copy(name, into, way.node or None) for name in way.copied]
            if way.node:
                nodes[way.node] = way.layouts
        return LayoutPlan(nodes, tuple(copies), best.cost, self._inputs, wanted)

    def _has_layout(self, name: str) -> bool:
        return has_layout(self._graph.values[name])

    def _copies(
        self, node: Node, layouts: Mapping[str, frozenset[bool]], into: bool
    ) -> tuple[str, ...]:
        """Return the inputs of a node that do not exist as it reads them."""
        names = dict.fromkeys(node.inputs)
        return tuple(n for n in names if self._has_layout(n) and into not in layouts[n])

    def _results(self, node: Node, writes_last: bool) -> dict[str, frozenset[bool]]:
        made = _LAST if writes_last else _FIRST
        return {name: made for name in node.outputs if self._has_layout(name)}

    def _cost_of(self, copied: tuple[str, ...]) -> float:
        return sum(self._copy_cost(self._graph.values[name]) for name in copied)
