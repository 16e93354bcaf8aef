"""The entry point: what the package registers with convfind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl

if TYPE_CHECKING:
    from convfind.plugins.registry import ProblemTypeRegistry, SolverRegistry


@hookimpl
def convfind_register_problem_types(register: ProblemTypeRegistry) -> None:
    """Register every kind of operator."""
    from convfind_operators.problem_list import problem_types

    register.extend(problem_types())


@hookimpl
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Register a solver for each kind."""
    from convfind_operators.solver_list import solvers

    register.extend(solvers())
