"""``convfind db import``: imports MIOpen's texts and JSON Lines into a database."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind.cli.progress import ProgressBar
from convfind.errors import FindDbError
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.foreign import ForeignDevice
from convfind_finddb_tools.import_miopen import ImportReport, import_miopen
from convfind_finddb_tools.json_lines import import_json_lines
from convfind_finddb_tools.text_kinds import FIND_TEXT, PERF_TEXT, form_of, kind_of

_KINDS = {"find-db": FIND_TEXT, "perf-db": PERF_TEXT}
_SHOWN = 5  # refused lines of each file on a terminal


@click.command("import", cls=Command)
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@click.option("--to", "database", required=True, type=PATH, metavar="DB", help="Target database.")
@click.option("--device", help="Device of MIOpen's files, as it names them.  [from the file name]")
@click.option(
    "--kind", type=click.Choice([*_KINDS]), help="Of MIOpen's files.  [*.db.txt: perf-db]"
)
@click.option("--replace", is_flag=True, help="Forget MIOpen's records of the device first.")
@click.option("--errors", type=PATH, metavar="FILE", help="Write every refused line's reason here.")
@click.pass_obj
def import_(
    app: App,
    files: tuple[Path, ...],
    database: Path,
    device: str | None,
    kind: str | None,
    replace: bool,
    errors: Path | None,
) -> None:
    """Import MIOpen's find-dbs (*.fdb.txt), perf-dbs (*.db.txt) or JSON Lines (*.jsonl).

    Each of them may be compressed by bz2.

    Every line becomes an entry, or is listed with its number and the reason. A file is
    imported whole or not at all; files before one that cannot be read stay imported. Existing
    records stay. MIOpen's records are shown and analysed, but never used by finds.

    \b
    Examples:
      convfind db import gfx90a68.HIP.fdb.txt.bz2 gfx942130.HIP.fdb.txt.bz2 --to miopen
      convfind db import my.fdb.txt --device gfx906_60.HIP --to miopen --errors refused.txt
      convfind db import gfx906_60.db.txt --to miopen
      convfind db import reviewed.jsonl --to tuned
    """
    reports: list[ImportReport] = []
    try:
        for file in files:
            size = 0
            with suppress(OSError):
                size = file.stat().st_size >> 10
            with ProgressBar(file.name, size) as bar:

                def show(position: int, bar: ProgressBar = bar, name: str = file.name) -> None:
                    bar.advance(f"{name} KiB", position >> 10)

                if form_of(file) == "jsonl":
                    reports.append(import_json_lines(database, file, show))
                else:
                    chosen = kind_of(file) if kind is None else _KINDS[kind]
                    perf = chosen is PERF_TEXT
                    foreign = None if device is None else ForeignDevice.parse(device, perf=perf)
                    reports.append(
                        import_miopen(
                            *(database, file, foreign),
                            kind=chosen,
                            replace=replace,
                            on_progress=show,
                        )
                    )
    finally:
        if errors is not None:
            _write_errors(errors, reports)
        if reports:
            _print(app, reports)


def _write_errors(path: Path, reports: list[ImportReport]) -> None:
    lines = [
        f"{report.file}:{line.number}: {line.reason}\n"
        for report in reports
        for line in report.refused
    ]
    try:
        path.write_text("".join(lines), encoding="utf-8")
    except OSError as exc:
        msg = f"{path} cannot be written: {exc}"
        raise FindDbError(msg) from exc


def _report_json(report: ImportReport) -> dict[str, Any]:
    return {
        "file": str(report.file),
        "source": report.source,
        "lines": report.lines,
        "added": report.added,
        "unchanged": report.unchanged,
        "refused": [{"line": line.number, "reason": line.reason} for line in report.refused],
    }


def _print(app: App, reports: list[ImportReport]) -> None:
    if app.json:
        app.emit({"files": [_report_json(report) for report in reports]})
        return
    numbers = ("lines", "added", "unchanged", "refused")
    table = new_table("file", "for", *numbers, right=numbers)
    for report in reports:
        counts = (report.lines, report.added, report.unchanged, len(report.refused))
        table.add_row(report.file.name, report.source, *(f"{count:,}" for count in counts))
    app.print(table)
    for report in reports:
        for line in report.refused[:_SHOWN]:
            app.note(f"{report.file}:{line.number}: {line.reason}")
        if len(report.refused) > _SHOWN:
            more = len(report.refused) - _SHOWN
            app.note(f"{report.file}: {more} more lines refused; --json or --errors lists them")
