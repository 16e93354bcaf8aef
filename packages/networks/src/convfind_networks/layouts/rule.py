"""Layouts by a rule, for networks of which nothing has been measured."""

from __future__ import annotations

from convfind_networks.graph import Graph, Node, Value
from convfind_networks.layouts.assignment import LayoutPlan, assign_layouts, is_same_memory
from convfind_networks.ops import (
    Activate,
    Binary,
    Cast,
    Concat,
    Dequantize,
    Identity,
    Pad,
    Quantize,
    Slice,
    Split,
    Unary,
    Where,
)

#: A node in the other layout counts as so many copies of its result.
_PREFERENCE = 2.0
#: Operations that go through elements one by one, in either layout as quickly.
_INDIFFERENT = (
    *(Activate, Binary, Cast, Concat, Dequantize, Identity),
    *(Pad, Quantize, Slice, Split, Unary, Where),
)


def channels_last_where_possible(graph: Graph, *, prefer: bool = True) -> LayoutPlan:
    """Return layouts that are channels-last wherever nodes can be, or channels-first.

    Matrix units of GPUs and wide vectors of CPUs want channels-last. Costs are bytes: a copy moves
    its value, and a node in the other layout is dearer than the copies that would avoid that,
    unless it moves elements alone: its second axis may be no channels.
    """

    def node_cost(node: Node, reads_last: bool, writes_last: bool) -> float:
        if reads_last != writes_last:
            return float("inf")
        wrong = reads_last != prefer and not isinstance(node.op, _INDIFFERENT)
        return _PREFERENCE * graph.values[node.output].type.nbytes if wrong else 0.0

    def copy_cost(value: Value) -> float:
        return 0.0 if is_same_memory(value) else float(value.type.nbytes)

    return assign_layouts(graph, node_cost, copy_cost)
