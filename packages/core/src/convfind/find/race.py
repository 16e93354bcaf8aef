"""`Race`: who can still win, by forecasts and by the times measured so far; it runs nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from convfind.find.known import INDEX, Forecast, Known
from convfind.reasons import Reason
from convfind.solver import Solver
from convfind.solver.applicability import Rejected

#: A solver whose programs are ready runs where it is behind the best by this multiple of the
#: error of their ratio at most; compiling takes as long as thousands of runs, and a solver for
#: which it is necessary has to promise more. How they were chosen: ADR 0035.
READY_MARGIN, COMPILED_MARGIN = 1.0, 0.5

#: Whether all programs of a solver are ready to run.
IsReady = Callable[[Solver], bool]


class Race:
    """Forecasts of one problem, brought to scale by what was measured.

    A solver of which nothing is known can always win.
    """

    def __init__(self, known: Known, is_ready: IsReady) -> None:
        self._forecasts = known.forecasts
        self._plain_best = known.plain_best
        self._is_ready = is_ready

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
        best, scale = self._best(waiting, measured)
        able, unable = [], {}
        for solver in waiting:
            why = None if best is None else self._why_not(solver, best, scale)
            if why is None or (self._is_alone(best, measured) and solver is waiting[0]):
                able.append(solver)
            else:
                unable[solver.solver_id] = Rejected(Reason.OUTRUN, why)
        return able, unable

    @staticmethod
    def _is_alone(best: Forecast | None, measured: Mapping[str, float]) -> bool:
        """Whether all rests on one time and on a solver's own word: then another one runs too."""
        return best is not None and best.source == INDEX and len(measured) == 1

    def _best(
        self, waiting: Sequence[Solver], measured: Mapping[str, float]
    ) -> tuple[Forecast | None, float]:
        """Return the time to beat as a forecast, and the scale of the other forecasts.

        That is the scale at which the fastest so far of which something is known is as fast as was
        expected.
        """
        if measured:
            expected = {name: self._forecasts[name] for name in measured if name in self._forecasts}
            if not expected:
                return None, 1.0
            leader = min(expected, key=measured.__getitem__)
            scale = measured[leader] / expected[leader].time_ms
            return expected[leader]._replace(time_ms=min(measured.values())), scale
        known = (self._forecasts.get(solver.solver_id) for solver in waiting)
        return min((one for one in known if one is not None), default=None), 1.0

    def _why_not(self, solver: Solver, best: Forecast, scale: float) -> str | None:
        name = solver.solver_id
        if self._plain_best and name not in self._plain_best:
            return f"it is not among the best {len(self._plain_best)} of the plain problem"
        forecast = self._forecasts.get(name)
        if forecast is None or self._plain_best:
            return None
        error = max(forecast.error, best.error)
        behind = math.log(forecast.time_ms * scale / best.time_ms)
        if behind <= COMPILED_MARGIN * error:
            return None
        if behind <= READY_MARGIN * error and self._is_ready(solver):
            return None
        return (
            f"predicted {forecast.time_ms * scale:.3g} ms +-{100 * math.expm1(error):.0f} % "
            f"by {forecast.source}, best {best.time_ms:.3g} ms"
        )
