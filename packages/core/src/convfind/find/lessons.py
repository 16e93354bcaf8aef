"""Lessons: how far forecasts were off in a session's finds so far, and what follows for the next.

Models and records of other devices, and indices, err alike from problem to problem: a solver that
took longer than they said, beside the others, will do so again. A problem's own scale says nothing,
so each time counts beside those of the other solvers that ran. Each source errs in its own way:
lessons about indices say nothing of records.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from convfind.find.forecast import Forecast
    from convfind.problem.contract import Problem
    from convfind.runtime.session import Lessons, Residuals

Name = TypeVar("Name", bound=Hashable)

#: Problems of which a solver's lessons are, and the latest ones, one of which is among them, where
#: they decide.
_ENOUGH, _FRESH = 3, 4
#: Problems of a field that count.
_MOST: Final = 64
#: Problems by which the first guess of a solver's bias, none, and of the error that is left, the
#: forecast's, count. How they were chosen: ADR 0050.
_NO_BIAS, _SAME_ERROR = 1.0, 2.0
#: No forecast's error is less: how fast a solver is depends on more than itself.
_LEAST_ERROR = 0.1
#: Times, in logarithms, that are off by more than this beside the others are no evidence.
_ABSURD = math.log(100.0)
#: Turns in which biases and the problems' scales follow from each other.
_TURNS = 6


class _Lesson(NamedTuple):
    """A solver's bias, of how many problems, and the sum of squares that is left."""

    bias: float
    problems: int
    squares: float


def learn(
    lessons: Lessons,
    problem: Problem,
    forecasts: Mapping[str, Forecast],
    times: Mapping[str, float],
    *,
    constant_weights: bool = False,
) -> None:
    """Take note of the times in ms of a problem's solvers, which were forecast.

    Times with ``constant_weights``, which leave packing out, teach lessons of their own.
    """
    if not _are_unsure(forecasts):
        return
    residuals = {
        (solver, forecasts[solver].source): math.log(time / forecasts[solver].time_ms)
        for solver, time in times.items()
        if solver in forecasts and time > 0
    }
    residuals = credible(residuals)
    if len(residuals) > 1:
        field = _field(problem, constant_weights)
        lessons[field] = (*lessons.get(field, ())[1 - _MOST :], residuals)


def credible(off: Mapping[Name, float]) -> dict[Name, float]:
    """Return how far times are off, in logarithms, without those that nothing explains.

    No solver is a hundred times as far off as half of the others: its time is false, by a damaged
    record or a forged one, and would be taken for what all others are off by.
    """
    middle = statistics.median(off.values()) if off else 0.0
    return {name: one for name, one in off.items() if abs(one - middle) <= _ABSURD}


def corrected(
    lessons: Lessons,
    problem: Problem,
    forecasts: Mapping[str, Forecast],
    *,
    constant_weights: bool = False,
) -> Mapping[str, Forecast]:
    """Return forecasts without the biases that lessons know, and with the errors that are left."""
    rows = lessons.get(_field(problem, constant_weights))
    if not rows or not _are_unsure(forecasts):
        return forecasts
    known = _lessons(rows)

    def better(solver: str, forecast: Forecast) -> Forecast:
        lesson = known.get((solver, forecast.source))
        return forecast if lesson is None else _corrected(forecast, lesson)

    return {solver: better(solver, forecast) for solver, forecast in forecasts.items()}


def well_known(
    lessons: Lessons,
    problem: Problem,
    forecasts: Mapping[str, Forecast],
    *,
    constant_weights: bool = False,
) -> frozenset[str]:
    """Return the solvers about which lessons decide: of several problems, and of the latest ones.

    Others run as without lessons. So nobody is out for long by lessons of problems that this one
    does not resemble.
    """
    rows = lessons.get(_field(problem, constant_weights), ())
    times = Counter(forecast for row in rows for forecast in row)
    latest = {forecast for row in rows[-_FRESH:] for forecast in row}
    return frozenset(
        solver
        for solver, forecast in forecasts.items()
        if (name := (solver, forecast.source)) in latest and times[name] >= _ENOUGH
    )


def _field(problem: Problem, constant_weights: bool) -> Hashable:
    """Return what finds have in common whose forecasts err alike."""
    dtype = problem.operand(problem.writes[0]).dtype
    return problem.kind, problem.reads, problem.writes, dtype, constant_weights


def _are_unsure(forecasts: Mapping[str, Forecast]) -> bool:
    """Return whether nothing measured on this device is behind any of the forecasts."""
    return all(forecast.is_foreign for forecast in forecasts.values())


def _corrected(forecast: Forecast, lesson: _Lesson) -> Forecast:
    variance = _SAME_ERROR * forecast.error**2 + lesson.squares
    variance /= _SAME_ERROR + lesson.problems
    error = math.sqrt(variance * (1 + 1 / (_NO_BIAS + lesson.problems)))
    return forecast._replace(
        time_ms=forecast.time_ms * math.exp(lesson.bias),
        error=min(forecast.error, max(error, _LEAST_ERROR)),
    )


def _lessons(rows: tuple[Residuals, ...]) -> dict[tuple[str, str], _Lesson]:
    """Split residuals into a scale of each problem and a bias of each solver by each source."""
    biases = dict.fromkeys((solver for row in rows for solver in row), 0.0)
    for _ in range(_TURNS):
        scales = [_scale(row, biases) for row in rows]
        off = _by_solver(rows, scales)
        biases = {name: sum(each) / (len(each) + _NO_BIAS) for name, each in off.items()}
    # One scale for so few solvers takes a part of their deviations with it.
    parts = [len(row) / (len(row) - 1) for row in rows]
    squares = dict.fromkeys(biases, 0.0)
    for row, part in zip(rows, parts, strict=True):
        scale = _scale(row, biases)
        for solver, residual in row.items():
            squares[solver] += part * (residual - scale - biases[solver]) ** 2
    return {
        solver: _Lesson(bias, len(off[solver]), squares[solver]) for solver, bias in biases.items()
    }


def _scale(row: Residuals, biases: Mapping[tuple[str, str], float]) -> float:
    return statistics.fmean(residual - biases[solver] for solver, residual in row.items())


def _by_solver(
    rows: tuple[Residuals, ...], scales: list[float]
) -> dict[tuple[str, str], list[float]]:
    off: dict[tuple[str, str], list[float]] = {}
    for row, scale in zip(rows, scales, strict=True):
        for solver, residual in row.items():
            off.setdefault(solver, []).append(residual - scale)
    return off
