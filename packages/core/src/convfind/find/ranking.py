"""The one order of solutions: deterministic, whatever order they were found in."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from convfind.find.solution import Solution, TimeOrigin
from convfind.policy import Order

_ORIGINS = {
    TimeOrigin.MEASURED: 0,
    TimeOrigin.USER_DB: 0,
    TimeOrigin.SYSTEM_DB: 0,
    TimeOrigin.PREDICTED: 1,
    TimeOrigin.FORECAST: 1,
    TimeOrigin.SIBLING: 1,
    TimeOrigin.WTI: 2,
    TimeOrigin.NONE: 3,
}


def ranked(
    solutions: Iterable[Solution], order: Order = Order.TIME, last: Container[str] = ()
) -> tuple[Solution, ...]:
    """Sort: within the workspace limit first, measured before estimated, then by time or workspace.

    Ties go by workspace, then by id. Solutions without any time keep the order they came in, which
    is that of the solver lists, best first. Solvers whose ids are in ``last`` come after all others
    within the limit, or over it.
    """

    def key(item: tuple[int, Solution]) -> tuple[object, ...]:
        position, solution = item
        time = solution.estimate_ms
        known = math.inf if time is None else time
        place = position if time is None else 0
        first = (
            (solution.workspace, _ORIGINS[solution.time_origin], known, place)
            if order is Order.WORKSPACE
            else (_ORIGINS[solution.time_origin], known, place, solution.workspace)
        )
        return solution.over_limit, solution.solver in last, *first, solution.solver

    return tuple(solution for _, solution in sorted(enumerate(solutions), key=key))


def merged(
    first: Iterable[Solution],
    second: Iterable[Solution],
    order: Order,
    last: Container[str] = (),
) -> tuple[Solution, ...]:
    """Rank two lists as one, in which a solver of the first hides its entry in the second."""
    by_solver: dict[str, Solution] = {}
    for solution in (*first, *second):
        by_solver.setdefault(solution.solver, solution)
    return ranked(by_solver.values(), order, last)
