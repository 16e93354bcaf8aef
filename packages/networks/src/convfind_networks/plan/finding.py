"""Finding: all problems of a network as one batch, with one progress and one budget of time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from convfind.find.result import FindOrigin, FindResult
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.policy import Mode
from convfind.runtime.session import Progress, silent
from convfind.text import format_time

#: The share of a budget that compiling ahead may take.
_AHEAD = 0.5


def is_estimated(problem: Any, result: FindResult) -> bool:
    """Tell whether a problem that is to be measured was not."""
    return bool(problem.is_measured) and result.origin is FindOrigin.FALLBACK


def find_all(
    handle: Handle,
    problems: Sequence[Any],
    mode: Mode | None = None,
    *,
    on_progress: Progress = silent,
    time_budget: float | None = None,
    **policy: Any,
) -> dict[Any, FindResult]:
    """Find every distinct problem, those with most work first.

    Args:
        handle: the device.
        problems: the problems, each as often as it occurs.
        mode: as `Handle.find` takes it.
        on_progress: called with stage "find", problems done, problems in all, and a label.
        time_budget: seconds for all of them. Half of it is there to compile ahead; a problem gets
            an equal share of what is left. When nothing is left, the rest is estimated.
        **policy: as `Handle.find` takes it.
    """
    distinct = sorted(dict.fromkeys(problems), key=lambda p: -p.flops * problems.count(p))
    began = time.monotonic()
    found: dict[Any, FindResult] = {}
    ahead = None if time_budget is None else time_budget * _AHEAD
    handle.compile_ahead(problems, mode, time_budget=ahead, **policy)
    for done, problem in enumerate(distinct):
        on_progress("find", done, len(distinct), str(problem))
        limits = dict(policy)
        if time_budget is not None:
            left = time_budget - (time.monotonic() - began)
            if left > 0:
                limits["time_budget"] = left / (len(distinct) - done)
            else:
                limits |= {"use_db": True, "on_miss": "estimate"}
        found[problem] = handle.find(problem, mode, **limits)
    on_progress("find", len(distinct), len(distinct), "")
    return found


def choice_of(problem: Any, result: FindResult) -> str:
    """Say in words why a find's best solution is the best."""
    if not problem.is_measured:
        return "the first that takes it"
    best, *others = (one for one in result.solutions if not one.over_limit)
    if best.time_ms is None:
        return "estimated: nothing was measured"
    timed = [one for one in others if one.time_ms is not None]
    told = f"{format_time(best)} ms, {best.time_origin.value}"
    if not timed:
        return f"{told}; the only one timed"
    return f"{told}; fastest of {len(timed) + 1}, next {_next(best, timed[0])}"


def _next(best: Solution, other: Solution) -> str:
    assert best.time_ms is not None
    assert other.time_ms is not None
    ratio = other.time_ms / best.time_ms if best.time_ms else 1.0
    return f"{other.solver} at {ratio:.2f} times"
