"""The entry point: what the package registers with convfind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from convfind.plugins import hookimpl

if TYPE_CHECKING:
    from convfind.plugins.registry import SolverRegistry


@hookimpl
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Register the family in its order of preference."""
    from convfind_solvers_fft.solver_list import solvers

    register.extend(solvers())


@hookimpl
def convfind_system_databases() -> list[Path]:
    """Name what was measured on devices and packed into the package."""
    return sorted((Path(__file__).parent / "databases").glob("*.lmdb"))
