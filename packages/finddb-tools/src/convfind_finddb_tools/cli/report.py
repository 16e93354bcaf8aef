"""``convfind report``: a model's gain from a database, as one HTML page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind.cli.layer_result import csv_text
from convfind.errors import FindDbError
from convfind.finddb.record import QuarantineRecord
from convfind.finddb.replacing import replacing
from convfind.finddb.table import FIND, QUARANTINE
from convfind.text import format_bytes, format_ms
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection, watched
from convfind_finddb_tools.database import FOREIGN, Snapshot
from convfind_finddb_tools.entry import Entry, split_key
from convfind_finddb_tools.report.layers import DeviceReport, Failure, device_reports
from convfind_finddb_tools.report.occurrences import Occurrence, read_occurrences
from convfind_finddb_tools.report.page import Head, page
from convfind_finddb_tools.report.tables import layer_records
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.tune.workload import workload_path

_PEAK = click.FloatRange(min=0, min_open=True)


@click.command(cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option(
    "--output", type=PATH, metavar="FILE", default=Path("report.html"), help="[report.html]"
)
@click.option(
    "--problems",
    type=PATH,
    metavar="FILE",
    help="What the model has: JSON Lines with problem and count, or a layer file.  "
    "[workload.jsonl of `convfind tune` beside DB, else every problem of DB once]",
)
@click.option("-n", "--batch", type=click.IntRange(min=1), help="Batch size in place of FILE's.")
@click.option(
    "--before", type=PATH, metavar="DB", help="Compare with this.  [the GEMM fallback in DB]"
)
@click.option("--peak-gflops", type=_PEAK, help="Of the device.  [the best in DB]")
@click.option("--peak-gbs", type=_PEAK, help="Memory, GB/s.  [the best in DB]")
@click.option("--title", help="[what is tuned, and for what]")
@click.option("--csv", "csv_file", type=PATH, metavar="FILE", help="Write all layers as CSV, too.")
@click.pass_obj
@takes_selection
def report(
    app: App,
    database: Path | None,
    output: Path,
    problems: Path | None,
    batch: int | None,
    before: Path | None,
    peak_gflops: float | None,
    peak_gbs: float | None,
    title: str | None,
    csv_file: Path | None,
    selection: Selection,
) -> None:
    """Write one self-contained HTML page about a model's gain from a database.

    For each device it shows the gain in total and by layer, the winning solvers and their margins,
    time against workspace, the roofline, the spread of the measurements, failures, and all layers
    in a table. Noisy layers are marked, and left out of comparisons.

    \b
    Examples:
      convfind report
      convfind report tuned --problems benchmarks/layers/resnet50.txt --output resnet50.html
      convfind report after --before before --device H200 --peak-gflops 60000 --peak-gbs 4800
    """
    path = chosen_database(app, database)
    occurrences, model = _occurrences(path, problems, batch)
    old = None if before is None else _entries_by_problem(before, selection)
    with Snapshot(path) as snapshot:
        total = snapshot.count(FIND.name) + snapshot.count(FOREIGN)
        entries = watched(selection.entries(snapshot), "reading", total)
        reports = device_reports(entries, occurrences, old)
        for one in reports:
            one.failures = _failures(snapshot, one.device, selection)
        where = str(snapshot.path)
    if not reports:
        such = " that the filters and the list of problems choose" if total else ""
        msg = f"{where} has no records{such}"
        raise FindDbError(msg)
    versus = "the GEMM fallback" if before is None else str(before)
    what = (problems.stem if problems else "") or Path(where).parent.name
    head = Head(
        title or f"Convolutions of {what}: the gain from tuning",
        where,
        versus,
        model,
        peak_gflops,
        peak_gbs,
    )
    text = page(head, reports).encode()
    with replacing(output) as file:
        file.write(text)
    if csv_file is not None:
        rows = [row for one in reports for row in layer_records(one)]
        with replacing(csv_file) as file:
            file.write(csv_text(rows).encode())
    if app.json:
        document = {"output": str(output), "bytes": len(text)}
        app.emit(document | {"devices": [_report_json(one) for one in reports]})
        return
    _print(app, reports)
    app.print("", f"written to {output}, {format_bytes(len(text))}")


def _occurrences(
    database: Path, problems: Path | None, batch: int | None
) -> tuple[list[Occurrence] | None, str]:
    """Return the model's problems, and their source in words."""
    file = problems or workload_path(database)
    if problems is None and not file.exists():
        if batch is not None:
            msg = "--batch needs a list of problems; give --problems FILE"
            raise click.UsageError(msg)
        return None, "every problem of the database once"
    return read_occurrences(file, batch), f"problems of {file}"


def _entries_by_problem(path: Path, selection: Selection) -> dict[tuple[str, str], Entry]:
    with Snapshot(path) as snapshot:
        return {(one.device, one.problem): one for one in selection.entries(snapshot)}


def _failures(snapshot: Snapshot, device: str, selection: Selection) -> list[Failure]:
    """Quarantined solvers of a device, one for each reason, the most frequent first."""
    counts: Counter[tuple[str, int, str]] = Counter()
    samples: dict[tuple[str, int, str], QuarantineRecord] = {}
    for key, sealed in snapshot.items(QUARANTINE.name):
        if split_key(key)[0] != device:
            continue
        value = QUARANTINE.unpack(key, sealed, snapshot.get)
        value = None if value is None else selection.narrowed(QUARANTINE.name, key, value)
        for record in value or ():
            name = (record.solver, record.solver_version, record.reason)
            counts[name] += 1
            samples[name] = record
    return [Failure(samples[name], count) for name, count in counts.most_common()]


def _print(app: App, reports: list[DeviceReport]) -> None:
    numbers = ("problems", "missing", "compared", "before ms", "after ms", "faster", "all ms")
    table = new_table("device", *numbers, right=numbers)
    for one in reports:
        compared = one.speedup is not None
        table.add_row(
            *(one.device, f"{len(one.layers):,}", f"{len(one.missing):,}"),
            f"{len(one.compared):,}",
            format_ms(one.compared_before_ms) if compared else "-",
            format_ms(one.compared_after_ms) if compared else "-",
            f"{one.speedup:.2f}x" if one.speedup is not None else "-",
            format_ms(one.after_ms),
        )
    app.print(table)


def _report_json(one: DeviceReport) -> dict[str, Any]:
    return {
        "device": one.device,
        "problems": len(one.layers),
        "missing": [missing.problem for missing in one.missing],
        "expected_ms": one.after_ms,
        "compared": len(one.compared),
        "noisy": len(one.noisy),
        "before_ms": one.compared_before_ms,
        "after_ms": one.compared_after_ms,
        "speedup": one.speedup,
        "quarantined": len(one.failures),
    }
