"""Choices: why a step of a plan runs as it does, as the find of its problem told."""

from __future__ import annotations

from typing import Any

from convfind.find.result import FindOrigin, FindResult
from convfind.find.solution import Solution
from convfind.text import format_time


def is_estimated(problem: Any, result: FindResult) -> bool:
    """Tell whether a problem that is to be measured was not."""
    return bool(problem.is_measured) and result.origin is FindOrigin.FALLBACK


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
