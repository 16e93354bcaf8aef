"""Pairs of nodes as one: where that was measured to be faster than one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from convfind.find.result import FindResult
from convfind_networks.graph import Node
from convfind_networks.layouts import LaidOut
from convfind_networks.lowering import Call

#: The cost of a launch beside the time of its kernel on CPU runtimes, in ms.
LAUNCH_MS = 0.006


def faster_pairs(
    laid_out: LaidOut,
    calls: Sequence[Call],
    pairs: Mapping[Node, Call],
    found: Mapping[Any, FindResult],
) -> dict[Node, Call]:
    """Return the pairs whose one call takes less time than the calls of both nodes.

    A copy, which finds do not time, takes what it takes at the highest rate at which any solution
    moved its tensors.

    Args:
        laid_out: the graph.
        calls: those of its nodes.
        pairs: a call for both nodes, by the second of them.
        found: results for all of their problems. A pair that was not measured is not faster.
    """
    problems = {call.node.output: call.problem for call in calls}

    times = {
        problem: result.best.time_ms if result.solutions else None
        for problem, result in found.items()
    }
    rate = max((one.traffic / spent for one, spent in times.items() if spent), default=math.inf)

    def time(problem: Any) -> float:
        if not problem.is_measured:
            return float(problem.traffic) / rate
        time_ms = times[problem]
        return math.inf if time_ms is None else time_ms

    return {
        node: call
        for node, call in pairs.items()
        if time(call.problem)
        < time(problems[node.inputs[0]]) + time(problems[node.output]) + LAUNCH_MS
    }
