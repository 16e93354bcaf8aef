"""Which programs a network is worth: those without which it is expected to take longer.

A program serves many problems, and a problem is served by many programs. Programs are taken one by
one, each time the one that saves most, while a program saves a share of the network's time that is
worth its compiling. How much it saves is uncertain, as forecasts are: of two solvers the slower one
by forecast may well be the faster, and counts with what it saves on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from convfind.find.known import Forecast
from convfind.solver.kernel_spec import Program

#: The share of a problem's time that a program for it alone has to save, and of how many problems'
#: share at most is asked for where it is for a network of them. How they were chosen: ADR 0035.
_WORTH, _SHARED_BY = 0.05, 16
#: Times its run, what it saves a problem that anybody can run at all.
_NOBODY = 10.0
_NORMAL = NormalDist()

Programs = frozenset[Program]


class Contender(NamedTuple):
    """A solver of a problem."""

    forecast: Forecast | None
    programs: Programs


class Field(NamedTuple):
    """The contenders of one problem by solver id, and how often the network has it."""

    contenders: Mapping[str, Contender]
    weight: int

    def best(self, ready: set[Program]) -> Forecast | None:
        """Return the best forecast of a solver whose programs are ready."""
        known = (one.forecast for one in self.contenders.values() if one.programs <= ready)
        return min((one for one in known if one is not None), default=None)


def worthwhile(fields: Sequence[Field], is_ready: Callable[[Program], bool]) -> set[Program]:
    """Return the programs, of all that contenders have, with which a network's finds begin.

    Every problem has somebody who can run. Solvers of which nothing is known are served, too.
    """
    contenders = [one for field in fields for one in field.contenders.values()]
    ready = {one for contender in contenders for one in contender.programs if is_ready(one)}
    ready |= {
        one for contender in contenders if contender.forecast is None for one in contender.programs
    }
    whole = sum(field.weight * _least(field) for field in fields)
    enough = _WORTH * whole / max(1, min(len(fields), _SHARED_BY))
    while True:
        savings: dict[Programs, float] = {}
        for field in fields:
            for needed, saving in _savings(field, ready, enough):
                savings[needed] = savings.get(needed, 0.0) + saving / len(needed)
        if not savings:
            return ready
        needed = max(savings, key=savings.__getitem__)
        if savings[needed] < enough:
            return ready
        ready |= needed


def expected_saving(behind: float, error: float) -> float:
    """Return the share of the leader's time that running another solver, too, saves on average.

    Args:
        behind: logarithm of the ratio of their expected times.
        error: standard deviation of that.
    """
    z = behind / error
    return error * (_NORMAL.pdf(z) - z * _NORMAL.cdf(-z))


def _savings(field: Field, ready: set[Program], enough: float) -> Iterator[tuple[Programs, float]]:
    """Yield what programs that are not ready would save one problem, in ms of the network."""
    forecasts = [one.forecast for one in field.contenders.values() if one.forecast is not None]
    best = field.best(ready)
    for contender in field.contenders.values():
        needed, forecast = contender.programs - ready, contender.forecast
        if not needed or forecast is None:
            continue
        if best is None:
            ahead = math.log(max(forecasts).time_ms / forecast.time_ms)
            yield needed, enough + field.weight * min(forecasts).time_ms * (_NOBODY + ahead)
        else:
            behind = math.log(forecast.time_ms / best.time_ms)
            share = expected_saving(behind, max(forecast.error, best.error))
            yield needed, field.weight * best.time_ms * share


def _least(field: Field) -> float:
    known = (one.forecast.time_ms for one in field.contenders.values() if one.forecast is not None)
    return min(known, default=0.0)
