"""``convfind db diff``: where two databases disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind.finddb.table import FIND
from convfind.text import format_ms
from convfind_finddb_tools.cli.options import PATH, takes_selection, watched
from convfind_finddb_tools.database import FOREIGN, Snapshot, database_path
from convfind_finddb_tools.difference import Difference, differences
from convfind_finddb_tools.selection import Selection


@click.command(cls=Command)
@click.argument("first", type=PATH, metavar="A")
@click.argument("second", type=PATH, metavar="B")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=5.0,
    help="Times that differ by less percent agree.  [5]",
)
@click.option("--limit", type=click.IntRange(min=0), default=100, help="Rows; 0: all.  [100]")
@click.pass_obj
@takes_selection
def diff(
    app: App, first: Path, second: Path, threshold: float, limit: int, selection: Selection
) -> None:
    """Compare two databases: problems that one lacks, times and winners that changed.

    \b
    Examples:
      convfind db diff before after
      convfind db diff before after --threshold 20 --direction fwd --json
    """
    only_first = only_second = changed = winners = 0
    rows: list[Difference] = []
    if database_path(first).samefile(database_path(second)):
        msg = "A and B are the same database"
        raise click.UsageError(msg)
    with Snapshot(first) as before, Snapshot(second) as after:
        found = differences(selection.entries(before), selection.entries(after), threshold / 100)
        total = sum(max(before.count(name), after.count(name)) for name in (FIND.name, FOREIGN))
        for difference in watched(found, "comparing", total):
            only_first += difference.second is None
            only_second += difference.first is None
            changed += bool(difference.changes)
            winners += difference.winner_changed
            if not limit or len(rows) < limit:
                rows.append(difference)
    counts = {
        "only_in_a": only_first,
        "only_in_b": only_second,
        "changed": changed,
        "winner_changed": winners,
    }
    if app.json:
        app.emit(counts | {"differences": [_difference_json(row) for row in rows]})
        return
    app.print(
        f"{only_first:,} problems only in A, {only_second:,} only in B, {changed:,} differ, "
        f"{winners:,} of them in the winner"
    )
    _print(app, rows)
    if len(rows) < only_first + only_second + changed:
        app.note(f"only the first {limit} problems; --limit 0 lists all")


def _print(app: App, rows: list[Difference]) -> None:
    if not rows:
        return
    table = new_table(
        *("device", "problem", "solver", "A ms", "B ms", "B/A"), right=("A ms", "B ms", "B/A")
    )
    for row in rows:
        entry = row.entry
        if not row.changes:
            a, b = ("yes", "-") if row.second is None else ("-", "yes")
            table.add_row(entry.device, entry.problem, "", a, b, "")
        for change in row.changes:
            table.add_row(
                *(entry.device, entry.problem, change.solver),
                *(
                    "-" if ms is None else format_ms(ms)
                    for ms in (change.first_ms, change.second_ms)
                ),
                "-" if change.ratio is None else f"{change.ratio:.2f}",
            )
    app.print(table)


def _difference_json(row: Difference) -> dict[str, Any]:
    entry = row.entry
    return {
        "origin": entry.origin,
        "device": entry.device,
        "problem": entry.problem,
        "in_a": row.first is not None,
        "in_b": row.second is not None,
        "winner_changed": row.winner_changed,
        "solvers": [
            {"solver": change.solver, "a_ms": change.first_ms, "b_ms": change.second_ms}
            for change in row.changes
        ],
    }
