"""``convfind db list``: the problems of a database and their fastest records."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind.text import format_bytes, format_ms
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import Entry
from convfind_finddb_tools.selection import Selection


@click.command("list", cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option("--limit", type=click.IntRange(min=0), default=100, help="Problems; 0: all.  [100]")
@click.pass_obj
@takes_selection
def listing(app: App, database: Path | None, limit: int, selection: Selection) -> None:
    """List problems with their fastest record.

    \b
    Examples:
      convfind db list --stale
      convfind db list miopen --device gfx942 --direction fwd --algorithm winograd --limit 20
      convfind db list miopen --limit 0 --json | jq -r .problems[].problem
    """
    with Snapshot(chosen_database(app, database)) as snapshot:
        entries = list(islice(selection.entries(snapshot), limit + 1 if limit else None))
    more = bool(limit) and len(entries) > limit
    if more:
        entries.pop()
    if app.json:
        app.emit({"problems": [_entry_json(entry) for entry in entries], "more": more})
        return
    numbers = ("ms", "workspace", "records")
    table = new_table("device", "problem", "fastest", *numbers, right=numbers)
    for entry in entries:
        best = entry.winner
        table.add_row(
            entry.device,
            entry.problem,
            "-" if best is None else best.solver,
            "-" if best is None else format_ms(best.time_ms),
            "-" if best is None else format_bytes(best.workspace),
            str(len(entry.results)),
        )
    app.print(table if entries else "no such problems")
    if more:
        app.note(f"only the first {limit}; --limit 0 lists all")


def _entry_json(entry: Entry) -> dict[str, Any]:
    best = entry.winner
    return {
        "origin": entry.origin,
        "device": entry.device,
        "problem": entry.problem,
        "fastest": None if best is None else best.solver,
        "time_ms": None if best is None else best.time_ms,
        "workspace": None if best is None else best.workspace,
        "results": len(entry.results),
    }
