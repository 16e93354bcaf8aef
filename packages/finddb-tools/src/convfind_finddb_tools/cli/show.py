"""``convfind db show``: all contents of a database for a problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from convfind.cli.app import App, ProblemCommand, new_table
from convfind.errors import FindDbError
from convfind.text import format_bytes, format_error, format_ms, format_spread
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import Entry, Measured
from convfind_finddb_tools.knowledge import Knowledge, knowledge_about
from convfind_finddb_tools.selection import Selection


@click.command(cls=ProblemCommand)
@click.argument("problem")
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.pass_obj
@takes_selection
def show(app: App, problem: str, database: Path | None, selection: Selection) -> None:
    """Show every record, tuned config and quarantine of a problem, on every device.

    PROBLEM is a network config as convfind prints it, a key of MIOpen's find-db or perf-db, or a
    MIOpenDriver line, in quotes where a DB follows.

    \b
    Examples:
      convfind db show fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32
      convfind db show 64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F miopen
      convfind db show conv -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1
      convfind db show "conv -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1" --json
      convfind db show fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32 --device gfx90a
    """
    with Snapshot(chosen_database(app, database)) as snapshot:
        found = knowledge_about(snapshot, problem, selection)
        path = snapshot.path
    if not found:
        such = " that the filters choose" if selection.restricts else ""
        msg = f"{path} knows nothing about {problem}{such}"
        raise FindDbError(msg)
    if app.json:
        app.emit({"found": [_knowledge_json(one) for one in found]})
        return
    for one in found:
        _print(app, one)


def _print(app: App, one: Knowledge) -> None:
    app.print(f"problem  {one.problem}", f"device   {one.device}")
    if one.entry is not None:
        app.print(_table(one.entry))
    for tuned in one.configs:
        app.print(f"tuned    {tuned.solver}@{tuned.solver_version}: {tuned.config}")
    for solver, config in one.foreign_configs:
        app.print(f"tuned    {solver}: {config}")
    for record in one.quarantine:
        app.print(f"quarantined {record.solver}@{record.solver_version}: {record.reason}")
    app.print("")


def _table(entry: Entry) -> Any:
    numbers = ("ms", "spread", "samples", "workspace", "error")
    table = new_table("solver", "algorithm", *numbers, "measured", "driver", right=numbers)
    for result in sorted(entry.results, key=lambda result: (result.time_ms, result.solver)):
        table.add_row(
            *(result.solver, result.algorithm, format_ms(result.time_ms)),
            *_provenance(result),
        )
    return table


def _provenance(result: Measured) -> Sequence[str]:
    record = result.record
    if record is None:
        return "-", "-", format_bytes(result.workspace), "-", "by MIOpen", "-"
    return (
        format_spread(record.time_ms, record.spread_ms, record.samples),
        str(record.samples),
        format_bytes(record.workspace),
        format_error(record.error),
        time.strftime("%Y-%m-%d %H:%M", time.gmtime(record.created)),
        record.driver,
    )


def _knowledge_json(one: Knowledge) -> dict[str, Any]:
    results = () if one.entry is None else one.entry.results
    return {
        "origin": "miopen" if one.device.startswith("miopen|") else "convfind",
        "device": one.device,
        "problem": one.problem,
        "results": [_result_json(result) for result in results],
        "tuned": [
            *(msgspec.structs.asdict(tuned) for tuned in one.configs),
            *({"solver": solver, "config": text} for solver, text in one.foreign_configs),
        ],
        "quarantined": [msgspec.structs.asdict(record) for record in one.quarantine],
    }


def _result_json(result: Measured) -> dict[str, Any]:
    if result.record is not None:
        return msgspec.structs.asdict(result.record)
    return {
        "solver": result.solver,
        "algorithm": result.algorithm,
        "time_ms": result.time_ms,
        "workspace": result.workspace,
    }
