"""The programs that a network is worth: those without which it is expected to take longer.

A program serves many problems, and a problem is served by many programs. Programs are taken one by
one, each time the one that saves most, while a program saves a share of the network's time that is
worth its compiling. How much it saves is uncertain, as forecasts are: of two solvers the slower one
by forecast may well be the faster, and counts with what it saves on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from convfind.checking.measuring import expected_saving
from convfind.find.forecast import INDEX, Forecast
from convfind.solver.kernel_spec import Program

#: The share of a problem's time that a program for it alone has to save, and of how many problems'
#: share at most is asked for where it is for a network of them. How they were chosen: ADR 0035.
_WORTH, _SHARED_BY = 0.05, 16
#: That share was chosen where so many programs are compiled at once. Where more are, each of them
#: is worth it for less, down to where finds take longer by all the runs that follow.
_COMPILERS, _MOST_COMPILERS = 2, 16
#: Times its run, what it saves a problem that anybody can run at all.
_NOBODY = 10.0

Programs = frozenset[Program]


class Contender(NamedTuple):
    """A solver of a problem."""

    forecast: Forecast | None
    programs: Programs


class Field(NamedTuple):
    """The contenders of one problem by solver id, in order, and how often the network has it."""

    contenders: Mapping[str, Contender]
    weight: int

    def able(self, ready: Mapping[Program, None]) -> dict[str, Contender]:
        """Return the contenders whose programs are ready, in order."""
        return {name: one for name, one in self.contenders.items() if one.programs <= ready.keys()}

    def best(self, ready: Mapping[Program, None]) -> Forecast | None:
        """Return the best forecast of a solver whose programs are ready."""
        known = (one.forecast for one in self.contenders.values() if one.programs <= ready.keys())
        return min((one for one in known if one is not None), default=None)

    def second(self, chosen: Mapping[Program, None]) -> Programs:
        """Return the programs of who runs beside the only one that can, on whose word all rests.

        A race has a second solver run there, whatever the network is worth.
        """
        able = list(self.able(chosen).values())
        if len(able) != 1 or able[0].forecast is None or able[0].forecast.source != INDEX:
            return frozenset()
        others = (one for one in self.contenders.values() if one is not able[0])
        return next((one.programs for one in others), frozenset())


def worthwhile(
    fields: Sequence[Field],
    is_ready: Callable[[Program], bool],
    compilers: int = _COMPILERS,
) -> dict[Program, None]:
    """Return the programs, of all that contenders have, with which a network's finds begin.

    They are in order: those that are ready, those of solvers of which nothing is known, and then by
    what they save. Every problem has somebody who can run. The more ``compilers`` work side by
    side, the less a program has to save.
    """
    contenders = [one for field in fields for one in field.contenders.values()]
    needed = dict.fromkeys(one for contender in contenders for one in contender.programs)
    ready = dict.fromkeys(filter(is_ready, needed))
    ready |= dict.fromkeys(
        one for contender in contenders if contender.forecast is None for one in contender.programs
    )
    whole = sum(field.weight * _least(field) for field in fields)
    cheaper = max(1.0, min(compilers, _MOST_COMPILERS) / _COMPILERS)
    enough = _WORTH * whole / max(1, min(len(fields), _SHARED_BY)) / cheaper
    while True:
        savings: dict[Programs, float] = {}
        for field in fields:
            for programs, saving in _savings(field, ready, enough):
                savings[programs] = savings.get(programs, 0.0) + saving / len(programs)
        if not savings:
            return ready
        best = max(savings, key=savings.__getitem__)
        if savings[best] < enough:
            return ready
        ready |= dict.fromkeys(best)


def _savings(
    field: Field, ready: Mapping[Program, None], enough: float
) -> Iterator[tuple[Programs, float]]:
    """Yield what programs that are not ready would save one problem, in ms of the network."""
    forecasts = [one.forecast for one in field.contenders.values() if one.forecast is not None]
    best = field.best(ready)
    for contender in field.contenders.values():
        needed, forecast = contender.programs.difference(ready), contender.forecast
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
