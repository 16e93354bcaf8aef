"""``convfind solvers``: what is installed, in order."""

from __future__ import annotations

from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind.solver import TunableSolver
from convfind.types import Algorithm


@click.command(cls=Command)
@click.option(
    "--algorithm",
    type=click.Choice([algorithm.value for algorithm in Algorithm]),
    help="Only solvers of this one.",
)
@click.option("--backend", metavar="NAME", help="Only solvers that run on this backend.")
@click.pass_obj
def solvers(app: App, algorithm: str | None, backend: str | None) -> None:
    """List the installed solvers, best first in each family.

    \b
    Examples:
      convfind solvers
      convfind solvers --algorithm gemm --json
    """
    registry = app.registry
    rows: list[dict[str, Any]] = [
        {
            "solver": solver.solver_id,
            "algorithm": solver.algorithm.value,
            "version": solver.version,
            "dynamic": solver.is_dynamic,
            "tunable": isinstance(solver, TunableSolver),
            "last_resort": solver.is_last_resort,
            "backends": list(solver.backends),
            "package": registry.package_of(solver.solver_id),
        }
        for solver in registry.solvers
        if algorithm in (None, solver.algorithm)
        and (backend is None or not solver.backends or backend in solver.backends)
    ]
    if app.json:
        app.emit(rows)
        return
    if not rows:
        app.print("no solver; solvers come in packages such as convfind-solvers-direct")
        return
    table = new_table("solver", "algorithm", "version", "properties", "backends", "package")
    for row in rows:
        properties = ("dynamic", "tunable", "last_resort")
        table.add_row(
            row["solver"],
            row["algorithm"],
            str(row["version"]),
            ", ".join(name.replace("_", " ") for name in properties if row[name]),
            ", ".join(row["backends"]) or "any",
            row["package"],
        )
    app.print(table)
