"""``convfind db merge``: merges several databases into one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from convfind.cli.app import App, Command, new_table
from convfind.cli.progress import ProgressBar
from convfind.text import format_ms
from convfind_finddb_tools.cli.options import PATH, takes_selection
from convfind_finddb_tools.database import database_path
from convfind_finddb_tools.merging import MergeReport, merge_databases
from convfind_finddb_tools.selection import Selection

_SHOWN = 10


@click.command(cls=Command)
@click.argument("sources", nargs=-1, required=True, type=PATH, metavar="DB...")
@click.option("--to", "output", required=True, type=PATH, metavar="OUT", help="Target database.")
@click.pass_obj
@takes_selection
def merge(app: App, sources: tuple[Path, ...], output: Path, selection: Selection) -> None:
    """Merge databases, or their selected parts, into OUT; existing contents of OUT take part.

    For each problem and solver better evidence wins: a quiet measurement before a noisy one, then
    more samples, then newer, then smaller spread. The order of the databases does not matter, and
    merging again changes nothing. For MIOpen's records, which hold only times, the smallest above
    zero wins. Measurements of the same thing that disagree by more than 10 % are reported. The
    workloads beside the databases, which say how often each problem occurs, are united.

    \b
    Examples:
      convfind db merge node1 node2 node3 --to all
      convfind db merge shard --to all --json | jq .conflicts
      convfind db merge fleet --to h200 --device H200 --dtype float16
    """
    # A database named twice adds nothing.
    distinct = tuple({database_path(path).resolve(): path for path in sources}.values())
    with ProgressBar("merging", 100) as bar:

        def show(done: int, total: int) -> None:
            bar.advance(f"merging {total:,} entries, %", 100 * done // max(total, 1))

        report = merge_databases(distinct, output, show, selection)
    if app.json:
        app.emit(dataclasses.asdict(report))
        return
    _print(app, report, output)


def _print(app: App, report: MergeReport, output: Path) -> None:
    app.print(f"{report.read:,} entries read, {report.changed:,} of them changed {output}")
    if report.networks:
        app.print(f"{report.networks:,} networks are in the workload beside it")
    if report.damaged:
        app.note(f"{report.damaged:,} damaged entries left out")
    if not report.conflicts:
        return
    app.print(f"{report.conflicting:,} measurements disagree by more than 10 %")
    table = new_table(
        *("device", "problem", "solver", "kept ms", "dropped ms"), right=("kept ms", "dropped ms")
    )
    for conflict in report.conflicts[:_SHOWN]:
        times = format_ms(conflict.kept_ms), format_ms(conflict.dropped_ms)
        table.add_row(conflict.device, conflict.problem, conflict.solver, *times)
    app.print(table)
    if report.conflicting > _SHOWN:
        app.note(f"only the first {_SHOWN}; --json lists more")
