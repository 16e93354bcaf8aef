"""`assign_layouts`: the cheapest layout of every value, by dynamic programming.

Nodes are visited in order. A state says in which layouts each value that is still read exists;
for each state the cheapest way to it is kept. That is exact: on a chain it is a shortest path, and
beside a residual two values are alive. Only where very many values are alive at once are the worst
of the states forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from convfind_networks.graph import Graph, Node, Value

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
    writes channels-last.
    """

    nodes: Mapping[str, tuple[bool, bool]]
    copies: tuple[Copy, ...]
    cost: float


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


def follows_layout(graph: Graph, node: Node) -> bool:
    """Tell whether a node can run channels-last."""
    values = [graph.values[name] for name in (*node.inputs, *node.outputs)]
    return node.op.follows_layout and all(has_layout(one) or one.is_constant for one in values)


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
    given = _LAST if channels_last_inputs else _FIRST
    inputs = [n for n in graph.inputs if has_layout(graph.values[n])]
    left = dict(graph.uses)
    states: dict[_State, _Way] = {tuple((n, given) for n in inputs if left.get(n)): _Way(0.0)}
    for node in graph.nodes:
        reads = [n for n in dict.fromkeys(node.inputs) if has_layout(graph.values[n])]
        for name in node.inputs:
            left[name] -= 1
        free = follows_layout(graph, node)
        choices = [
            (pair, cost)
            for pair in (_PAIRS if free else _PAIRS[:1])
            if math.isfinite(cost := node_cost(node, *pair))
        ]
        following: dict[_State, _Way] = {}
        for state, way in states.items():
            for pair, cost in choices:
                _extend(graph, node, reads, left, state, way, pair, cost, copy_cost, following)
        if len(following) > most_states:
            kept = sorted(following.items(), key=lambda item: item[1].cost)[:most_states]
            following = dict(kept)
        states = following
    return _finished(graph, states, channels_last_outputs, copy_cost)


def _extend(
    graph: Graph,
    node: Node,
    reads: list[str],
    left: Mapping[str, int],
    state: _State,
    way: _Way,
    pair: tuple[bool, bool],
    cost: float,
    copy_cost: CopyCost,
    following: dict[_State, _Way],
) -> None:
    """Run a node from a state in one pair of layouts, and keep that if it is the best so far."""
    layouts = dict(state)
    copied = tuple(name for name in reads if pair[0] not in layouts[name])
    total = way.cost + cost + sum(copy_cost(graph.values[name]) for name in copied)
    for name in copied:
        layouts[name] = _BOTH
    for name in node.outputs:
        if has_layout(graph.values[name]):
            layouts[name] = _LAST if pair[1] else _FIRST
    after = tuple((name, kinds) for name, kinds in layouts.items() if left.get(name))
    if after not in following or total < following[after].cost:
        following[after] = _Way(total, way, node.output, pair, copied)


def _finished(
    graph: Graph, states: Mapping[_State, _Way], wanted: bool, copy_cost: CopyCost
) -> LayoutPlan:
    """Return the best way, with the outputs as the caller wants them."""
    best: _Way | None = None
    for state, way in states.items():
        copied = tuple(
            name for name, kinds in state if name in graph.outputs.values() and wanted not in kinds
        )
        total = way.cost + sum(copy_cost(graph.values[name]) for name in copied)
        if best is None or total < best.cost:
            best = _Way(total, way, copied=copied)
    if best is None:
        return LayoutPlan({}, (), math.inf)
    nodes: dict[str, tuple[bool, bool]] = {}
    copies: list[Copy] = []
    for way in reversed(list(best.back())):
        into = way.layouts[0] if way.node else wanted
        copies += [Copy(name, into, way.node or None) for name in way.copied]
        if way.node:
            nodes[way.node] = way.layouts
    return LayoutPlan(nodes, tuple(copies), best.cost)
