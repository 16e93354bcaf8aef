"""The entry point: what the package registers with convfind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl

if TYPE_CHECKING:
    from convfind.plugins.registry import SolverRegistry


@hookimpl
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Register the family in its order of preference."""
    from convfind_solvers_fft.solver_list import solvers

    register.extend(solvers())
