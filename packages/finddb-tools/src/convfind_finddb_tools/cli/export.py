"""``convfind db export``: a database as MIOpen's text or as JSON Lines."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.exporting import FORMATS, export_to
from convfind_finddb_tools.selection import Selection


@click.command(cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option("--format", "form", required=True, type=click.Choice(FORMATS))
@click.option("--output", required=True, type=PATH, metavar="FILE", help="Replaced if it exists.")
@click.pass_obj
@takes_selection
def export(app: App, database: Path | None, form: str, output: Path, selection: Selection) -> None:
    """Export MIOpen's records as text that MIOpen reads, or everything as JSON Lines.

    MIOpen's text is that of version 2, in the order of the keys; records that were imported from it
    are exported byte for byte. It holds MIOpen's records only, as MIOpen cannot run convfind's
    solvers. miopen-perf writes its tuned configs. Both are for one device: choose it with --device
    if DB has several. JSON Lines hold everything, one problem per line, for review in git; `import`
    reads them. A FILE that ends in .bz2 is compressed.

    \b
    Examples:
      convfind db export mi250 --format miopen --output gfx90a68.HIP.fdb.txt
      convfind db export --format jsonl --output tuned.jsonl
      convfind db export fleet --format miopen --device gfx942130.HIP --direction fwd --output f.txt
    """
    with Snapshot(chosen_database(app, database)) as snapshot:
        written, damaged = export_to(output, form, snapshot, selection)
    if app.json:
        app.emit({"output": str(output), "written": written, "damaged": damaged})
        return
    app.print(f"{written:,} entries written to {output}")
    if damaged:
        app.note(f"{damaged:,} damaged entries left out")
