"""``convfind db gc``: removes records that are no longer of use."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.removal import remove
from convfind_finddb_tools.selection import Selection


@click.command(cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.pass_obj
@takes_selection
def gc(app: App, database: Path | None, dry_run: bool, selection: Selection) -> None:
    """Remove the records that the filters select; the next find measures them again.

    At least one filter is needed. The file does not become smaller: its space is used again, and
    `compact` writes a smaller copy.

    \b
    Examples:
      convfind db gc --stale
      convfind db gc tuned --older-than 52w --dry-run
      convfind db gc tuned --origin miopen
    """
    if not selection.restricts:
        msg = "no filter given, which would remove everything; see the options"
        raise click.UsageError(msg)
    path = chosen_database(app, database)
    with Snapshot(path) as snapshot:
        entries = list(selection.entries(snapshot))
    results = sum(len(entry.results) for entry in entries)
    if not dry_run and entries:
        results = remove(path, entries)
    if app.json:
        app.emit({"problems": len(entries), "results": results, "removed": not dry_run})
        return
    would = "would be removed" if dry_run else "removed"
    app.print(f"{results:,} records of {len(entries):,} problems {would}")
