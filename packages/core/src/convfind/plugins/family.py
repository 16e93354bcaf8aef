"""`family_hooks`: the hooks of a package that has solvers, and what was measured of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING

from convfind.plugins import hookimpl

if TYPE_CHECKING:
    from convfind.plugins.registry import SolverRegistry


def family_hooks(
    package: str,
) -> tuple[Callable[[SolverRegistry], None], Callable[[], list[Path]]]:
    """Return what a package's module of hooks has to name after the hooks that they implement.

    That is ``convfind_register_solvers, convfind_system_databases``. The first one registers
    ``solvers()`` of the module ``solver_list`` in their order of preference, and imports it not
    before; the second one names the databases in the folder ``databases``.
    """

    @hookimpl
    def convfind_register_solvers(register: SolverRegistry) -> None:
        register.extend(import_module(f"{package}.solver_list").solvers())

    return convfind_register_solvers, databases_hook(package)


def databases_hook(package: str) -> Callable[[], list[Path]]:
    """Return ``convfind_system_databases`` of a package with databases in its own folder."""

    @hookimpl
    def convfind_system_databases() -> list[Path]:
        return sorted(Path(str(resources.files(package) / "databases")).glob("*.lmdb"))

    return convfind_system_databases
