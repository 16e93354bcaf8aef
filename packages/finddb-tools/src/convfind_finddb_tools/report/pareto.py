"""Time against workspace: the cost of a limit for the whole model."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from convfind_finddb_tools.report.layers import Layer

_MOST = 400  # steps: more cannot be told apart


@dataclass(frozen=True, slots=True)
class LimitCost:
    """Expected time of the model where no layer uses more than so many bytes if it can help it."""

    workspace: int
    time_ms: float
    over: int  # problems that have no record within the limit, and take the least there is


def limit_costs(layers: Sequence[Layer]) -> list[LimitCost]:
    """The limits at which the model's time changes, ascending from 0: a falling staircase."""
    fronts = [_front(layer) for layer in layers]
    steps: dict[int, float] = {0: 0.0}
    total = 0.0
    for front in fronts:
        limits = [limit for limit, _ in front]
        first = max(bisect_right(limits, 0) - 1, 0)
        total += front[first][1]
        steps.setdefault(limits[0], 0.0)
        for number in range(first + 1, len(front)):
            gained = front[number - 1][1] - front[number][1]
            steps[limits[number]] = steps.get(limits[number], 0.0) + gained
    least = sorted(front[0][0] for front in fronts)
    costs = []
    for limit in sorted(steps):
        total -= steps[limit]
        costs.append(LimitCost(limit, total, len(least) - bisect_right(least, limit)))
    every = -(-len(costs) // _MOST)
    return [cost for number, cost in enumerate(costs) if not number % every or cost is costs[-1]]


def _front(layer: Layer) -> list[tuple[int, float]]:
    """Workspace and time of the records that no other beats in both, by workspace."""
    front: list[tuple[int, float]] = []
    results = [
        result
        for result in layer.entry.results
        if result.time_ms > 0 and not (result.record and result.record.constant_weights)
    ]
    for result in sorted(results, key=lambda one: (one.workspace, one.time_ms)):
        time_ms = layer.count * result.time_ms
        if not front or time_ms < front[-1][1]:
            front.append((result.workspace, time_ms))
    return front
