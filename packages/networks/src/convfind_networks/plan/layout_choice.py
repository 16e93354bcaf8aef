"""Layouts of a plan: by recorded times where there are any for both, else by rule."""

from __future__ import annotations

from convfind.find.recall import recall
from convfind.policy import Policy
from convfind_networks.graph import Graph, Node, Value
from convfind_networks.layouts import (
    LayoutPlan,
    assign_layouts,
    channels_last_where_possible,
    is_same_memory,
)
from convfind_networks.plan.posing import Posing


def choose_layouts(posing: Posing, graph: Graph, policy: Policy) -> LayoutPlan:
    """Return the layouts that cost least by what is recorded, or those that a rule prefers.

    Both layouts of every measured problem have to be recorded, and not in doubt: a mixture of times
    and guesses would choose what nobody knows. A copy costs what it takes at the highest rate at
    which any of the recorded solutions moved its tensors.
    """
    preferred = posing.prefers_channels_last(graph)
    rule = channels_last_where_possible(graph, prefer=preferred)
    if not policy.use_db:
        return rule
    times: dict[tuple[str, bool], float] = {}
    rate = 0.0  # bytes in a ms
    for last in (not preferred, preferred):  # the one that is less likely to be there comes first
        laid_out = posing.laid_out(graph, channels_last_where_possible(graph, prefer=last))
        for call in posing.calls(laid_out):
            if not call.problem.is_measured:
                continue
            known = recall(call.problem, posing.handle.session, policy)
            is_sure = known.answers and not known.in_doubt
            time = known.solutions[0].time_ms if is_sure else None
            if not time:
                return rule
            times[call.node.output, last] = time
            rate = max(rate, call.problem.traffic / time)
    if not times:
        return rule

    def node_cost(node: Node, reads_last: bool, writes_last: bool) -> float:
        if reads_last != writes_last:
            return float("inf")
        return times.get((node.output, reads_last), 0.0)

    def copy_cost(value: Value) -> float:
        return 0.0 if is_same_memory(value) else 2 * value.type.nbytes / rate

    return assign_layouts(graph, node_cost, copy_cost)
