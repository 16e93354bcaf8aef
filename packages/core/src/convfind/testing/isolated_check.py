"""A check of a solver in a child process, so that a crash is a finding and ends no test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from convfind.device.target import Target
from convfind.errors import ConvfindError
from convfind.find.isolation.child import Child
from convfind.find.isolation.choice import is_own
from convfind.find.isolation.place import Place
from convfind.find.isolation.process import EndedError
from convfind.find.isolation.wire import ForeignError
from convfind.solver import Solver
from convfind.testing.report import SolverReport

#: Seconds for all problems of a solver.
_LIMIT = 1800.0


def isolated_report(
    solver: Solver, target: Target, check: Callable[..., SolverReport], *arguments: Any
) -> SolverReport | None:
    """Return a check's report from a child; None for what only this process can or need check.

    It is None for this project's solvers, solvers that cannot be imported, and devices that cannot
    be opened by a name.

    Args:
        solver: what is checked.
        target: where.
        check: a function of a module, called with the child's session, the solver and arguments.
        *arguments: the others.
    """
    if is_own(solver) or (child := _child(target)) is None:
        return None
    try:
        report: SolverReport = child.call("call", check, solver, *arguments, limit=_LIMIT)
    except ForeignError:
        return None
    except EndedError as error:
        report = SolverReport(solver.solver_id, target.identity)
        report.fail("lives", "", f"it ended its process, or did not end: {error}")
    return report


@cache
def _child(target: Target) -> Child | None:
    from convfind.plugins.registry import default_registry

    registry = default_registry()
    plugins = registry.selection_for(target)
    if plugins is None:
        return None
    targets = registry.backends[target.backend].targets()
    if target not in targets:
        return None  # a device that pretends to be another one
    child = Child(Place(f"{target.backend}:{targets.index(target)}", target, plugins, 1))
    try:
        child.life()
    except ConvfindError:
        return None
    return child
