"""``convfind db convert``: converts a database from one form to another."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind.errors import FindDbError
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import file_in, make_private_folder
from convfind_finddb_tools.cli.options import PATH, takes_selection_without
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.exporting import export_to
from convfind_finddb_tools.foreign import ForeignDevice
from convfind_finddb_tools.import_miopen import ImportReport, import_miopen
from convfind_finddb_tools.joining import JOINS
from convfind_finddb_tools.json_lines import import_json_lines
from convfind_finddb_tools.merging import merge_databases
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.text_kinds import PERF_TEXT, form_of, kind_of

_SHOWN = 5


@click.command(cls=Command)
@click.argument("source", type=PATH, metavar="FROM")
@click.argument("output", type=PATH, metavar="TO")
@click.option("--device", help="Device of MIOpen's text, as it names it.  [from the file name]")
@click.pass_obj
@takes_selection_without("origin", "device")
def convert(app: App, source: Path, output: Path, device: str | None, selection: Selection) -> None:
    """Convert a database between its forms, recognised by name: import and export in one step.

    \b
      FOLDER, *.lmdb             a database
      *.fdb.txt, *.fdb.txt.bz2   MIOpen's find-db; written as version 2
      *.db.txt, *.db.txt.bz2     MIOpen's perf-db
      *.jsonl, *.jsonl.bz2       JSON Lines

    An existing database is not written to (`import` and `merge` do that); a text is replaced.
    Lines that are no entries are skipped and counted, as by `import`.

    \b
    Examples:
      convfind db convert gfx906_60.HIP.fdb.txt.bz2 version2/gfx906_60.HIP.fdb.txt
      convfind db convert tuned tuned.jsonl
      convfind db convert tuned.jsonl tuned-again
      convfind db convert fleet gfx90a68.HIP.fdb.txt --device gfx90a68.HIP --direction fwd
    """
    form = form_of(output)
    if form is None and output.exists():
        msg = f"{output} exists already; converting writes a new database"
        raise FindDbError(msg)
    report: ImportReport | None = None
    with tempfile.TemporaryDirectory(prefix="convfind-convert-") as folder:
        database = source
        if form_of(source) is not None:
            database = Path(folder) / "database"
            report = _import(source, database, device)
        if form is None:
            chosen = Path(folder) / "selected"
            damaged = merge_databases([database], chosen, selection=selection).damaged
            written = _write_database(chosen, output)
        else:
            with Snapshot(database) as snapshot:
                if report is None:
                    selection = dataclasses.replace(selection, device=device)
                written, damaged = export_to(output, form, snapshot, selection)
    refused = [] if report is None else report.refused
    if app.json:
        lines = [{"line": line.number, "reason": line.reason} for line in refused]
        document = {"output": str(output), "written": written, "damaged": damaged}
        app.emit(document | {"refused": lines})
        return
    app.print(f"{written:,} entries written to {output}")
    for line in refused[:_SHOWN]:
        app.note(f"{source}:{line.number}: {line.reason}")
    if len(refused) > _SHOWN:
        app.note(f"{source}: {len(refused) - _SHOWN} more lines refused; --json lists them")
    if damaged:
        app.note(f"{damaged:,} damaged entries left out")


def _import(source: Path, database: Path, device: str | None) -> ImportReport:
    if form_of(source) == "jsonl":
        return import_json_lines(database, source)
    kind = kind_of(source)
    given = None if device is None else ForeignDevice.parse(device, perf=kind is PERF_TEXT)
    return import_miopen(database, source, given, kind=kind)


def _write_database(database: Path, output: Path) -> int:
    """Copy a database to a new place; return the number of its values."""
    file = file_in(output, FILE_NAME)
    try:
        make_private_folder(file.parent)
    except OSError as exc:
        msg = f"{file.parent} cannot be created: {exc}"
        raise FindDbError(msg) from exc
    with Snapshot(database) as snapshot:
        snapshot.copy_to(file)
        return sum(snapshot.count(table) for table in JOINS)
