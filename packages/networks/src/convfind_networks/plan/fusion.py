"""Pairs of convolutions as one: where that was measured to be faster than one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from convfind.find.result import FindResult
from convfind_networks.graph import Node
from convfind_networks.layouts import LaidOut
from convfind_networks.lowering import Call

#: What a launch costs beside the time of its kernel on CPU runtimes, in ms.
_LAUNCH_MS = 0.006


def faster_pairs(
    laid_out: LaidOut,
    calls: Sequence[Call],
    pairs: Mapping[Node, Call],
    found: Mapping[Any, FindResult],
) -> dict[Node, Call]:
    """Return the pairs whose one call takes less time than the calls of both convolutions.

    Args:
        laid_out: the graph.
        calls: those of its nodes.
        pairs: a call for both convolutions, by the second of them.
        found: what was found for all of their problems. What was not measured is not faster.
    """
    times = {call.node.output: _time(found[call.problem]) for call in calls}
    return {
        node: call
        for node, call in pairs.items()
        if _time(found[call.problem]) < times[node.inputs[0]] + times[node.output] + _LAUNCH_MS
    }


def _time(result: FindResult) -> float:
    time = result.best.time_ms
    return math.inf if time is None else time
