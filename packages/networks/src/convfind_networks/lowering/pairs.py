"""Pairs of nodes as one call: a 1x1 and a depthwise convolution, a copy and a convolution of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from convfind.device.target import Target
from convfind.errors import ConvfindError
from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.layouts import LaidOut
from convfind_networks.lowering.call import Call, Lowering, Surroundings
from convfind_networks.lowering.convolution import convolution, copy_and_convolution
from convfind_networks.lowering.pointwise_depthwise import (
    pointwise_and_depthwise,
    pointwise_depthwise,
)

if TYPE_CHECKING:
    from convfind.plugins.registry import Registry

#: From the second node to one that does the work of both, if it is of such a pair; and how that
#: node is lowered.
_KINDS: tuple[tuple[Callable[[Graph, Node], Node | None], Lowering], ...] = (
    (pointwise_and_depthwise, pointwise_depthwise),
    (copy_and_convolution, convolution),
)


def fusible_pairs(laid_out: LaidOut, registry: Registry, target: Target) -> dict[Node, Call]:
    """Return the call of each pair that a solver takes as one, by the second of both.

    No node is in two pairs.
    """
    found: dict[Node, Call] = {}
    for node in laid_out.graph.nodes:
        for call in _calls(Surroundings(laid_out, registry), node):
            solvers = registry.solvers_of(call.problem.kind)
            able = (one for one in solvers if not one.is_last_resort)
            if any(solver.takes(call.problem, target) for solver in able):
                found.pop(laid_out.graph.producers[node.inputs[0]], None)
                found[node] = call
    return found


def _calls(around: Surroundings, node: Node) -> Iterator[Call]:
    for both, lowering in _KINDS:
        pair = both(around.laid_out.graph, node)
        if pair is None:
            continue
        try:
            yield lowering(around, pair)
        except ConvfindError:  # the problem type is not installed, or does not have this one
            continue


def fuse_pairs(laid_out: LaidOut, calls: Mapping[Node, Call]) -> LaidOut:
    """Return the graph with some nodes, and those before them, as one node."""
    edit = GraphEditor(laid_out.graph)
    for node, call in calls.items():
        before = edit.producer(node.inputs[0])
        assert before is not None
        edit.replace([before, node], call.node)
    graph = edit.graph()
    return replace(
        laid_out, graph=graph, channels_last=laid_out.channels_last & graph.values.keys()
    )
