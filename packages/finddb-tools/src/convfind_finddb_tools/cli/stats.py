"""``convfind db stats``: counts of a database's contents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from convfind.cli.app import App, Command, new_table
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind_finddb_tools.cli.options import PATH, chosen_database, takes_selection, watched
from convfind_finddb_tools.database import FOREIGN, FOREIGN_CONFIG, Snapshot
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.stats import Statistics


@click.command(cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.option("--top", type=click.IntRange(min=1), default=10, help="Solvers listed.  [10]")
@click.pass_obj
@takes_selection
def stats(app: App, database: Path | None, top: int, selection: Selection) -> None:
    """Count problems, records, and wins of each solver.

    A problem on two devices counts twice. Results of 0 ms, a defect in some of MIOpen's files,
    never win.

    \b
    Examples:
      convfind db stats
      convfind db stats miopen --device gfx90a --direction bwd-weights --top 20
      convfind db stats miopen --json | jq .solver_winners
    """
    with Snapshot(chosen_database(app, database)) as snapshot:
        total = snapshot.count(FIND.name) + snapshot.count(FOREIGN)
        counted = Statistics.of(watched(selection.entries(snapshot), "counting", total))
        path, size = snapshot.path, snapshot.path.stat().st_size
        configs = snapshot.count(CONFIG.name) + snapshot.count(FOREIGN_CONFIG)
        quarantined = snapshot.count(QUARANTINE.name)
    groups = {
        "origins": counted.origins,
        "devices": counted.devices,
        "directions": counted.directions,
        "dtypes": counted.dtypes,
        "layouts": counted.layouts,
        "algorithm_winners": counted.algorithm_winners,
        "solver_winners": counted.solver_winners,
    }
    if app.json:
        app.emit(
            {
                "database": str(path),
                "bytes": size,
                "problems": counted.entries,
                "results": counted.results,
                "zero_times": counted.zero_times,
                "tuned_configs": configs,
                "quarantined": quarantined,
                **{name: dict(counter.most_common()) for name, counter in groups.items()},
            }
        )
        return
    app.print(
        f"database   {path}, {size / 1e6:,.1f} MB",
        f"problems   {counted.entries:,} with {counted.results:,} records"
        + (f", {counted.zero_times:,} of 0 ms" if counted.zero_times else ""),
        f"beside     tuned configs of {configs:,} problems, quarantine of {quarantined:,}",
    )
    for name, counter in groups.items():
        _print_counts(app, name, counter, counted.entries, top)


def _print_counts(app: App, name: str, counter: Counter[str], total: int, top: int) -> None:
    if not counter:
        return
    table = new_table(name.replace("_", " "), "problems", "share", right=("problems", "share"))
    for word, count in counter.most_common(top):
        table.add_row(word, f"{count:,}", f"{100 * count / total:.1f} %")
    if len(counter) > top:
        table.add_row(f"{len(counter) - top} more", f"{sum(counter.values()):,} in all", "")
    app.print("", table)
