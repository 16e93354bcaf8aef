"""`Known`: forecasts of solvers, by all that is known before any of them has run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from convfind.errors import SolverError
from convfind.find.forecast import INDEX, Forecast, Source
from convfind.find.lessons import corrected, credible, well_known
from convfind.find.packing import Packing
from convfind.find.sources import (
    INDEX_ERROR,
    PLAIN_ERROR,
    Records,
    indexed,
    modelled,
    plain_form,
    recorded,
)
from convfind.kit.composed import Composed
from convfind.policy import Fallback, Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import Solver
from convfind.types import Algorithm

#: So many of the plain problem's best solvers at most are candidates for one with an epilogue, ...
PLAIN_BEST = 3
#: ... unless they would take this many times as long as one that has the epilogue inside, which
#: hardly takes longer with it.
_BEHIND = 1.1


@dataclass(frozen=True, slots=True)
class Known:
    """Forecasts by solver id, and the best of the plain problem where that is recorded.

    Solvers that failed when they were asked are in ``failures``. Forecasts as they were before the
    lessons of earlier finds are in ``uncorrected``, and the solvers about which lessons decide are
    those in ``well_known``. All who were asked have their algorithm in ``algorithms``.
    """

    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    plain_best: tuple[str, ...] = ()
    failures: Mapping[str, SolverError] = field(default_factory=dict)
    uncorrected: Mapping[str, Forecast] = field(default_factory=dict)
    well_known: frozenset[str] = frozenset()
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)


def known(problem: Problem, session: Session, solvers: Sequence[Solver], policy: Policy) -> Known:
    """Ask every source once about the solvers that take a plain problem."""
    fallback = policy.fallback
    packing = Packing(problem, session, solvers, policy)
    records = Records(session, policy.constant_weights, packing)
    plain = plain_form(problem, session, solvers, records)
    sources = [*recorded(problem, session, solvers, records)]
    if plain:
        sources.append(Source("the plain problem's record", PLAIN_ERROR, plain))
    indices, failures = indexed(problem, session, solvers)
    others = [*modelled(problem, session, solvers, fallback)]
    if fallback is not Fallback.GEMM:
        others.append(Source(INDEX, INDEX_ERROR, indices))
    sources += (one._replace(times=packing.as_measured(one.times)) for one in others)
    forecasts = combined(sources)
    lessons, constant = session.lessons, policy.constant_weights
    better = corrected(lessons, problem, forecasts, constant_weights=constant)
    familiar = well_known(lessons, problem, forecasts, constant_weights=constant)
    algorithms = {solver.solver_id: solver.algorithm for solver in solvers}
    return Known(better, _best_plain(plain), failures, forecasts, familiar, algorithms)


def _best_plain(plain: Mapping[str, float]) -> tuple[str, ...]:
    """Return who may be the fastest with an epilogue, by times that follow from those without."""
    best = sorted(plain, key=plain.__getitem__)
    inside = [plain[solver] for solver in best if Composed.suffix not in solver]
    limit = _BEHIND * min(inside or plain.values(), default=0.0)
    return tuple(solver for solver in best[:PLAIN_BEST] if plain[solver] <= limit)


def combined(sources: Sequence[Source]) -> dict[str, Forecast]:
    """Make one forecast for each solver: the mean of what sources say, weighted by their trust.

    A source is brought to the scale of the better ones by the solvers that both know. The error is
    that of the best source: what errs together, as models of related devices do, does not err less.
    Where a time and a solver's own word cannot both be true, nothing is known of that solver.
    """
    sums: dict[str, _Sum] = {}
    contradicted = _contradicted(sources)
    for source in sorted(sources, key=lambda one: one.error):
        known = _logs(source)
        logs = {solver: log for solver, log in known.items() if solver not in contradicted}
        shift, weight = _shift(logs, sums), source.error**-2
        for solver, log in logs.items():
            before = sums.get(solver) or _Sum(0.0, 0.0, source)
            total = before.total + weight * (log + shift)
            sums[solver] = _Sum(before.weight + weight, total, before.best)
    return {
        solver: Forecast(math.exp(one.mean), one.best.error, one.best.name)
        for solver, one in sums.items()
    }


def _contradicted(sources: Sequence[Source]) -> set[str]:
    """Return the solvers whose indices are far from their times, beside those of the others."""
    indices = next((_logs(one) for one in sources if one.name == INDEX), {})
    found: set[str] = set()
    for logs in map(_logs, sources):
        off = {solver: log - indices[solver] for solver, log in logs.items() if solver in indices}
        found |= off.keys() - credible(off).keys()
    return found


def _logs(source: Source) -> dict[str, float]:
    return {solver: math.log(time) for solver, time in source.times.items() if 0 < time < math.inf}


class _Sum(NamedTuple):
    """The forecast of a solver so far: logarithms by their weights, and the best source."""

    weight: float
    total: float
    best: Source

    @property
    def mean(self) -> float:
        return self.total / self.weight


def _shift(logs: Mapping[str, float], sums: Mapping[str, _Sum]) -> float:
    both = [sums[solver].mean - logs[solver] for solver in logs if solver in sums]
    if both:
        return math.fsum(both) / len(both)
    if not logs or not sums:
        return 0.0
    return min(one.mean for one in sums.values()) - min(logs.values())
