"""``convfind db quarantine``: lists the solvers in quarantine, and lifts it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from convfind.cli.app import App, Command, new_table
from convfind.errors import FindDbError
from convfind.problem.text import parse_problem
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection_without
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.quarantine import Quarantined, lift, quarantined
from convfind_finddb_tools.selection import Selection

_LONGEST = 60  # characters of a detail in a table

Function = Callable[..., Any]


@click.group()
def quarantine() -> None:
    """Look at solvers that failed and are not tried again, or let them be tried again.

    A solver whose result was wrong, or that crashed or hung, is in quarantine for that problem,
    device, driver and version. A new driver or a new version of the solver ends it.

    \b
    Examples:
      convfind db quarantine list
      convfind db quarantine lift --solver winograd-f4x3-cpu-nchw-fwd
    """


def _chooses(function: Function) -> Function:
    """Add what says which quarantines are meant."""
    named = click.option("--problem", metavar="PROBLEM", help="Key, config or driver line.")
    database = click.argument("database", required=False, type=PATH, metavar="[DB]")
    selected = takes_selection_without("origin", "algorithm")(function)
    return database(named(click.pass_obj(selected)))


@quarantine.command("list", cls=Command)
@_chooses
def list_(app: App, database: Path | None, problem: str | None, selection: Selection) -> None:
    """List solvers in quarantine: for which problem and device, why, and since when.

    \b
    Examples:
      convfind db quarantine list
      convfind db quarantine list --device H200 --newer-than 7d --json
      convfind db quarantine list --problem "conv -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 1"
    """
    found = _read(chosen_database(app, database), problem, selection)
    if app.json:
        app.emit({"quarantined": [_json(one) for one in found]})
        return
    if not found:
        app.print("no solver is in quarantine")
        return
    table = new_table("solver", "why", "since", "problem", "device", "driver", "detail")
    for one in found:
        record = one.record
        table.add_row(
            f"{record.solver}@{record.solver_version}",
            record.reason,
            time.strftime("%Y-%m-%d %H:%M", time.gmtime(record.created)),
            *(one.problem, one.device, record.driver),
            record.detail.partition("\n")[0][:_LONGEST],
        )
    app.print(table)


@quarantine.command("lift", cls=Command)
@click.option("--all", "every", is_flag=True, help="All of them, without a filter.")
@_chooses
def lift_(
    app: App, database: Path | None, problem: str | None, every: bool, selection: Selection
) -> None:
    """Lift the quarantines that the filters choose; the next find tries these solvers again.

    Entries of an installed pack stay as long as the pack does.

    \b
    Examples:
      convfind db quarantine lift --solver winograd-f4x3-cpu-nchw-fwd
      convfind db quarantine lift --problem fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32
      convfind db quarantine lift --all
    """
    if not (every or problem or selection.restricts):
        msg = "nothing chosen; name a solver, problem or device, or give --all"
        raise click.UsageError(msg)
    path = chosen_database(app, database)
    chosen = _read(path, problem, selection)
    if not chosen:
        msg = (
            f"{path} has no such quarantine: `convfind db quarantine list` lists them; one that a "
            "pack brought goes with the pack (`convfind db packs`)"
        )
        raise FindDbError(msg)
    lifted = lift(path, chosen)
    if app.json:
        app.emit({"lifted": lifted, "quarantined": [_json(one) for one in chosen]})
    else:
        app.print(f"{lifted:,} lifted; the next find tries them again")


def _read(path: Path, problem: str | None, selection: Selection) -> list[Quarantined]:
    names = None
    if problem is not None:
        parsed = parse_problem(problem)
        names = {key for one in parsed for key in (one.key, one.plain().key)}
    with Snapshot(path) as snapshot:
        return list(quarantined(snapshot, selection, names))


def _json(one: Quarantined) -> dict[str, Any]:
    return {"device": one.device, "problem": one.problem, **msgspec.structs.asdict(one.record)}
