"""``convfind db repair``: saves the intact records of a damaged database."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.salvage import salvage


@click.command(cls=Command)
@click.argument("database", type=PATH, metavar="DB")
@click.option("--to", "output", required=True, type=PATH, metavar="OUT", help="Target database.")
@click.pass_obj
def repair(app: App, database: Path, output: Path) -> None:
    """Save every intact record of a damaged database into OUT.

    The damaged file, which may also be one that convfind moved aside (*.corrupt-1), is only read.
    Every value has a checksum, so that no wrong value is saved. Records that were removed
    shortly before may come back.

    \b
    Examples:
      convfind db repair finddb.lmdb.corrupt-1 --to ~/.local/share/convfind
      convfind db repair damaged --to saved --json
    """
    saved = salvage(database, output)
    if app.json:
        app.emit({"output": str(output), "saved": dict(saved)})
        return
    counts = ", ".join(f"{count:,} in {table!r}" for table, count in saved.items() if count)
    app.print(f"values saved to {output}: {counts or 'none that it did not have'}")
