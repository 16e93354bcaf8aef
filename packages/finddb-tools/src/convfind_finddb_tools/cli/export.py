"""``convfind db export``: a database as MIOpen's text or as JSON Lines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from convfind.cli.app import App, Command
from convfind.errors import FindDbError
from convfind_finddb_tools.cli.options import PATH, chosen_database
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.export_miopen import export_miopen, the_device
from convfind_finddb_tools.json_lines import export_json_lines


@click.command(cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option("--format", "form", required=True, type=click.Choice(["miopen", "jsonl"]))
@click.option("--output", required=True, type=PATH, metavar="FILE", help="Replaced if it exists.")
@click.option("--device", help="For miopen, where DB has several devices, e.g. gfx90a68.HIP.")
@click.pass_obj
def export(app: App, database: Path | None, form: str, output: Path, device: str | None) -> None:
    """Export MIOpen's records as text that MIOpen reads, or everything as JSON Lines.

    MIOpen's text is that of version 2, in the order of the keys; records that were imported from it
    come out byte for byte. It holds records of MIOpen only: it could not run convfind's solvers.
    JSON Lines hold everything, one problem a line, for review in git; `import` reads them.

    \b
    Examples:
      convfind db export mi250 --format miopen --output gfx90a68.HIP.fdb.txt
      convfind db export --format jsonl --output tuned.jsonl
    """
    with Snapshot(chosen_database(app, database)) as snapshot:
        if form == "miopen":
            chosen = the_device(snapshot, device)
            with _replacing(output) as file:
                written, damaged = export_miopen(snapshot, chosen, file)
        else:
            with _replacing(output) as file:
                written, damaged = export_json_lines(snapshot, file)
    if app.json:
        app.emit({"output": str(output), "written": written, "damaged": damaged})
        return
    app.print(f"{written:,} records written to {output}")
    if damaged:
        app.note(f"{damaged:,} damaged records left out")


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that takes its place only when it is complete."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as exc:
        msg = f"{path} cannot be written: {exc}"
        raise FindDbError(msg) from exc
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as exc:
        msg = f"{path} cannot be written: {exc}"
        raise FindDbError(msg) from exc
    finally:
        draft.unlink(missing_ok=True)
