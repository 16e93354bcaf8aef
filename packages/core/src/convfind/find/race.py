"""`Race`: who can still win, by forecasts and by the times measured so far; it runs nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from convfind.find.forecast import INDEX, Forecast
from convfind.find.known import Known
from convfind.reasons import Reason
from convfind.solver import Solver
from convfind.solver.applicability import Rejected

#: A solver whose programs are ready runs where it is behind the best by this multiple of the
#: error of their ratio at most; compiling takes as long as thousands of runs, and a solver for
#: which it is necessary has to promise more. Whose programs are not worth it to a network has to be
#: ahead, of what was measured, by more than the error. How they were chosen: ADR 0035.
READY_MARGIN, COMPILED_MARGIN, DECLINED_MARGIN = 1.0, 0.5, -1.0
#: By so much at least, however sure a forecast is: a small lead is worth no program to a network.
_LEAST_LEAD = 0.17

#: One of these, of a solver.
Margin = Callable[[Solver], float]


Forecasts = Mapping[str, Forecast]


class Race:
    """Forecasts of one problem, brought to scale by what was measured.

    A solver of which nothing is known can always win. Lessons of earlier finds decide about the
    order, and about solvers that they know well and that are ready: who is compiled follows from
    what is worth it to a network, which is decided before there are any.
    """

    def __init__(self, known: Known, margin: Margin) -> None:
        self._forecasts = known.forecasts
        self._uncorrected = known.uncorrected or known.forecasts
        self._well_known = known.well_known
        self._plain_best = known.plain_best
        self._algorithms = known.algorithms
        self._margin = margin

    def forecast(self, solver: Solver) -> Forecast | None:
        """Return what is expected of a solver; None where it runs whatever is expected."""
        return None if self._plain_best else self._uncorrected.get(solver.solver_id)

    def is_out(self, solver: Solver) -> bool:
        """Return whether a solver does not run, whatever the others take."""
        return bool(self._plain_best) and solver.solver_id not in self._plain_best

    def order(self, solvers: Iterable[Solver]) -> list[Solver]:
        """Sort by expected time; those of which nothing is known come last, in their order."""

        def expected(solver: Solver) -> float:
            forecast = self._forecasts.get(solver.solver_id)
            return math.inf if forecast is None else forecast.time_ms

        return sorted(solvers, key=expected)

    def contenders(
        self, waiting: Sequence[Solver], measured: Mapping[str, float]
    ) -> tuple[list[Solver], dict[str, Rejected]]:
        """Split those who wait into who can still win, and why the others cannot.

        Args:
            waiting: solvers in order.
            measured: times in ms by solver id, of all who ran.
        """
        by_lessons = self._best(self._forecasts, waiting, measured)
        without = self._best(self._uncorrected, waiting, measured)
        able, unable = [], {}
        second = min(waiting, key=partial(self._rank_of_second, measured), default=None)
        for solver in waiting:
            is_judged = (
                solver.solver_id in self._well_known and self._margin(solver) >= READY_MARGIN
            )
            forecasts = self._forecasts if is_judged else self._uncorrected
            best, scale = by_lessons if is_judged else without
            why = None if best is None else self._why_not(solver, forecasts, best, scale)
            if why is None or (self._is_alone(best, measured) and solver is second):
                able.append(solver)
            else:
                unable[solver.solver_id] = Rejected(Reason.OUTRUN, why)
        return able, unable

    def _rank_of_second(self, measured: Mapping[str, float], solver: Solver) -> tuple[bool, bool]:
        """Return the rank of a solver among those that may have the second word: the least has it.

        It is one that is ready, if there is any: nobody waits for a compiler to have a second word.
        Variants of an algorithm err alike, so another one is asked if possible.
        """
        is_like = self._algorithms.get(solver.solver_id) in map(self._algorithms.get, measured)
        return self._margin(solver) < READY_MARGIN, is_like

    @staticmethod
    def _is_alone(best: Forecast | None, measured: Mapping[str, float]) -> bool:
        """Return whether one time and a solver's own word decide: then another one runs too."""
        return best is not None and best.source == INDEX and len(measured) == 1

    def _best(
        self, forecasts: Forecasts, waiting: Sequence[Solver], measured: Mapping[str, float]
    ) -> tuple[Forecast | None, float]:
        """Return the time to beat as a forecast, and the scale of the other forecasts.

        It is the scale at which the fastest so far of which something is known is as fast as was
        expected.
        """
        if measured:
            expected = {name: forecasts[name] for name in measured if name in forecasts}
            if not expected:
                return None, 1.0
            leader = min(expected, key=measured.__getitem__)
            scale = measured[leader] / expected[leader].time_ms
            return expected[leader]._replace(time_ms=min(measured.values())), scale
        favoured = [solver for solver in waiting if self._margin(solver) >= 0] or waiting
        known = (forecasts.get(solver.solver_id) for solver in favoured)
        return min((one for one in known if one is not None), default=None), 1.0

    def _why_not(
        self, solver: Solver, forecasts: Forecasts, best: Forecast, scale: float
    ) -> str | None:
        name = solver.solver_id
        if self.is_out(solver):
            names = " and ".join(self._plain_best)
            return f"it is not among the best of the plain problem: {names}"
        forecast = forecasts.get(name)
        if forecast is None or self._plain_best:
            return None
        error = max(forecast.error, best.error)
        if self._margin(solver) < 0:
            error = max(error, _LEAST_LEAD)
        behind = math.log(forecast.time_ms * scale / best.time_ms)
        if behind <= self._margin(solver) * error:
            return None
        return (
            f"predicted {forecast.time_ms * scale:.3g} ms +-{100 * math.expm1(error):.0f} % "
            f"by {forecast.source}, best {best.time_ms:.3g} ms"
        )
