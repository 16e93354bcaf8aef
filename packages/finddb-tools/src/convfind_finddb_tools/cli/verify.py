"""``convfind db verify``: measures a sample of a database again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from convfind.cli.app import App, Command, new_table
from convfind.cli.progress import ProgressBar
from convfind.errors import FindDbError
from convfind.text import format_ms
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection_without
from convfind_finddb_tools.database import Snapshot, database_path
from convfind_finddb_tools.drift import Drift, measure_again, sample_winners
from convfind_finddb_tools.looking import open_over
from convfind_finddb_tools.selection import Selection


@click.command(cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option("--device", help="Device to measure on, e.g. opencl:cpu.  [as in finds]")
@click.option("--sample", type=click.IntRange(min=1), default=10, help="Records.  [10]")
@click.option("--seed", type=int, default=0, help="Another one chooses other records.  [0]")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=20.0,
    help="Times that differ by more percent have drifted.  [20]",
)
@click.pass_obj
@takes_selection_without("origin", "device")
def verify(
    app: App,
    database: Path | None,
    device: str | None,
    sample: int,
    seed: int,
    threshold: float,
    selection: Selection,
) -> None:
    """Measure a sample of the device's fastest records again and report drift.

    The sample is taken from the records that the filters select. Nothing is changed. The exit
    code is 1 if a record has drifted.

    \b
    Examples:
      convfind db verify --sample 50
      convfind db verify tuned --device opencl:cpu --threshold 10 --json
      convfind db verify --older-than 30d --direction fwd
    """
    path = database_path(chosen_database(app, database))
    with open_over(device, [path], app.registry, app.settings) as handle:
        identity = handle.target.identity
        with Snapshot(path) as snapshot:
            entries = dataclasses.replace(selection, origin="convfind").entries(snapshot)
            records = sample_winners(entries, handle.target.identities, sample, seed)
        if not records:
            msg = f"{path} has no such records of {identity}"
            raise FindDbError(msg)
        with ProgressBar("measuring", len(records)) as bar:
            found = measure_again(handle, records, lambda done: bar.advance("measuring", done))
    drifted = [one for one in found if one.exceeds(threshold / 100)]
    if app.json:
        app.emit(
            {
                "device": identity,
                "drifted": len(drifted),
                "records": [dataclasses.asdict(one) | {"ratio": one.ratio} for one in found],
            }
        )
    else:
        _print(app, found, drifted, threshold)
    if drifted:
        raise click.exceptions.Exit(1)


def _print(app: App, found: list[Drift], drifted: list[Drift], threshold: float) -> None:
    table = new_table(
        *("problem", "solver", "recorded ms", "now ms", "ratio", ""),
        right=("recorded ms", "now ms", "ratio"),
    )
    for one in found:
        table.add_row(
            *(one.problem, one.solver, format_ms(one.recorded_ms)),
            "-" if one.now_ms is None else format_ms(one.now_ms),
            "-" if one.ratio is None else f"{one.ratio:.2f}",
            "drifted" if one in drifted else one.reason,
        )
    app.print(table, f"{len(drifted)} of {len(found)} differ by more than {threshold:g} %")
