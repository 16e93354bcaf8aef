"""``convfind db compact``: a copy of a database without free space."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind.errors import FindDbError
from convfind.text import format_bytes
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.database import Snapshot


@click.command(cls=Command)
@click.argument("database", type=PATH, metavar="DB")
@click.option("--to", "output", required=True, type=PATH, metavar="FILE", help="New *.lmdb file.")
@click.pass_obj
def compact(app: App, database: Path, output: Path) -> None:
    """Copy a database without its free space into a new file.

    The copy is consistent even while others write, so that it serves as a backup too.

    \b
    Examples:
      convfind db compact tuned --to tuned-2025.lmdb
    """
    if output.suffix != ".lmdb":
        msg = f"{output}: the name of a database file ends in .lmdb"
        raise click.BadParameter(msg, param_hint="--to")
    if output.exists():
        msg = f"{output} exists already; compacting writes a new file"
        raise FindDbError(msg)
    with Snapshot(database) as snapshot:
        snapshot.copy_to(output)
        before = snapshot.path.stat().st_size
    after = output.stat().st_size
    if app.json:
        app.emit({"output": str(output), "bytes_before": before, "bytes": after})
        return
    app.print(f"{output}: {format_bytes(after)} of {format_bytes(before)}")
