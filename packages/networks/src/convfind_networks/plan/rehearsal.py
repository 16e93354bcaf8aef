"""Rehearsal: finalists of finds timed once more, within runs of the whole network.

A find times a solution with its tensors in no cache. Within a network a task reads what the one
before has just written, so that another of the finalists may be quickest there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from convfind.find.result import FindResult
from convfind.find.solution import Solution
from convfind.problem import ConvProblem
from convfind.runtime.backend import InvokeArgs, StepwiseInvoker
from convfind_networks.graph import Node
from convfind_networks.lowering import Call
from convfind_networks.plan.draft import Draft
from convfind_networks.plan.fusion import LAUNCH_MS, faster_pairs
from convfind_networks.plan.plan import Plan
from convfind_networks.plan.profile import random_inputs

#: How many solutions of a problem are compared with the best that was found, and how many times its
#: time they had there at most.
_RIVALS, _NEAR = 2, 1.6
#: A rival is used where it takes less than this part of the time.
_CLEARLY = 0.97
#: Turns of a comparison, of `_RUNS` runs each, whose first warms the caches; and the seconds that
#: turns beyond the least number may take.
_TURNS, _RUNS, _SECONDS = range(3, 13), 3, 1.0


def rehearsed(draft: Draft, pairs: Mapping[Node, Call]) -> Plan:
    """Return the plan by what is quickest within runs of it.

    The plan by recorded solutions is returned where no other is quicker as a whole, and where the
    device cannot tell the times of steps within a run.

    Args:
        draft: the network, no pair fused.
        pairs: calls for two nodes each, by the second of them.
    """
    first = draft.plan()
    if not isinstance(first.invoker, StepwiseInvoker):
        return draft.fused(_faster_by_record(draft, pairs)).plan()
    inputs = random_inputs(first)
    paired_times = _PairTimes.taken(draft, first, pairs)
    recorded = draft.fused(paired_times.faster()).plan()
    chosen: dict[Any, tuple[Solution, str]] = {}
    quickest: dict[Any, float] = {}  # part of the time of the best that was found
    for rank in range(1, _RIVALS + 1):
        rivals = {
            problem: rival
            for problem, result in draft.found.items()
            if (rival := _rival(result, rank)) is not None
        }
        if not rivals:
            break
        other = replace(draft, chosen={problem: (one, "") for problem, one in rivals.items()})
        for problem, part in _parts(draft.calls, *_compared(first, other.plan(), inputs)).items():
            if problem in rivals and part < quickest.get(problem, _CLEARLY):
                quickest[problem] = part
                best = draft.found[problem].best.solver
                chosen[problem] = rivals[problem], _reason(part, best)
    fused = paired_times.faster(quickest)
    return _quicker(recorded, replace(draft, chosen=chosen).fused(fused).plan(), inputs)


def paired(draft: Draft, pairs: Mapping[Node, Call]) -> Draft:
    """Return the network with those pairs as one call that take less time so within its runs.

    Finds time a problem by itself, and few times where nobody else takes it, as pairs of
    convolutions and their depthwise halves mostly are: two such times may differ by more than a
    pair saves. By recorded times where there are only pairs of a copy and a convolution, or where
    the device cannot tell the times of steps within a run.
    """
    unsure = (call for call in pairs.values() if not isinstance(call.problem, ConvProblem))
    if any(_is_measured(draft, call) for call in unsure):
        first = draft.plan()
        if isinstance(first.invoker, StepwiseInvoker):
            return draft.fused(_PairTimes.taken(draft, first, pairs).faster())
    return draft.fused(_faster_by_record(draft, pairs))


def _faster_by_record(draft: Draft, pairs: Mapping[Node, Call]) -> dict[Node, Call]:
    return faster_pairs(draft.laid_out, draft.calls, pairs, draft.found)


def _is_measured(draft: Draft, call: Call) -> bool:
    return any(one.time_ms is not None for one in draft.found[call.problem].solutions)


@dataclass(frozen=True, slots=True)
class _PairTimes:
    """Times within runs, in ms by node, with pairs of nodes as two calls and as one."""

    pairs: Mapping[Node, Call]  # that were measured, by the second of the two
    problems: Mapping[str, Any]  # of each node by itself
    alone: Mapping[str, float]
    fused: Mapping[str, float]

    @classmethod
    def taken(cls, draft: Draft, first: Plan, pairs: Mapping[Node, Call]) -> _PairTimes:
        """Time a network whose first plan has no pair fused."""
        measured = {node: call for node, call in pairs.items() if _is_measured(draft, call)}
        problems = {call.node.output: call.problem for call in draft.calls}
        if not measured:
            return cls({}, problems, {}, {})
        together = draft.fused(measured).plan()
        return cls(measured, problems, *_compared(first, together, random_inputs(first)))

    def faster(self, quickest: Mapping[Any, float] | None = None) -> dict[Node, Call]:
        """Return the pairs that take less time as one call.

        Args:
            quickest: parts of their times, by problem, that nodes by themselves take with other
                solutions.
        """
        parts = quickest or {}

        def alone(name: str) -> float:
            return self.alone[name] * parts.get(self.problems[name], 1.0)

        return {
            node: call
            for node, call in self.pairs.items()
            if self.fused[node.output] < alone(node.inputs[0]) + alone(node.output) + LAUNCH_MS
        }


def _rival(result: FindResult, rank: int) -> Solution | None:
    """Return the solution that came so many places behind the best, if its time was near."""
    timed = [one for one in result.solutions if one.time_ms is not None and not one.over_limit]
    if len(timed) <= rank or timed[0] != result.best:
        return None
    best, rival = timed[0].time_ms, timed[rank].time_ms
    assert best is not None
    assert rival is not None
    return timed[rank] if rival <= _NEAR * best else None


def _reason(part: float, best: str) -> str:
    return f"{part:.2f} times the time of {best} within the network"


def _parts(
    calls: Sequence[Call], before: Mapping[str, float], after: Mapping[str, float]
) -> dict[Any, float]:
    """Return the time after as a part of that before, by problem, of all its nodes together."""
    sums: dict[Any, list[float]] = {}
    for call in calls:
        name = call.node.output
        if name in before:
            one = sums.setdefault(call.problem, [0.0, 0.0])
            one[0] += before[name]
            one[1] += after[name]
    return {problem: new / old for problem, (old, new) in sums.items() if old}


def _compared(
    first: Plan, second: Plan, inputs: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the times of two plans' tasks within runs, in ms by node; the plans take turns."""
    plans = (first, second)
    samples = _in_turns([partial(_task_times, plan, inputs) for plan in plans])
    return tuple(  # type: ignore[return-value]  # two of them
        {
            task.node: _typical(times)
            for task, times in zip(plan.schedule.tasks, zip(*some, strict=True), strict=True)
        }
        for plan, some in zip(plans, samples, strict=True)
    )


def _quicker(first: Plan, second: Plan, inputs: Mapping[str, Any]) -> Plan:
    """Return the plan whose runs take less time; the first where both take the same."""
    runs = [partial(_whole_time, plan, inputs) for plan in (first, second)]
    before, after = map(_typical, _in_turns(runs))
    return second if after < before else first


def _in_turns(functions: Sequence[Callable[[], Any]]) -> list[list[Any]]:
    """Call functions in turns, and return what each has returned."""
    began = time.monotonic()
    returned: list[list[Any]] = [[] for _ in functions]
    for turn in range(_TURNS.stop):
        if turn >= _TURNS.start and time.monotonic() - began > _SECONDS:
            break
        for some, function in zip(returned, functions, strict=True):
            some += [function() for _ in range(_RUNS)][1:]
    return returned


def _typical(times: Sequence[float]) -> float:
    """Return the lower quartile: other programs only make times longer."""
    return sorted(times)[len(times) // 4]


def _task_times(plan: Plan, inputs: Mapping[str, Any]) -> list[float]:
    """Return the times of a plan's tasks within one run, in ms."""
    assert isinstance(plan.invoker, StepwiseInvoker)
    with plan.bound(inputs) as (memory, _):
        times = iter(plan.invoker.step_times(InvokeArgs(**memory)))
    return [sum(next(times) for _ in steps) for steps in plan.steps]


def _whole_time(plan: Plan, inputs: Mapping[str, Any]) -> float:
    with plan.bound(inputs) as (memory, _):
        return plan.invoker.timed(InvokeArgs(**memory))
