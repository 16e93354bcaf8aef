"""``convfind tune status``: how far a run is, and what its workers do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from convfind.cli.app import App, Command, new_table
from convfind_finddb_tools.cli.options import PATH, chosen_database
from convfind_finddb_tools.tune.state import State, ago, read_state


@click.command("status", cls=Command)
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@click.pass_obj
def tune_status(app: App, database: Path | None) -> None:
    """Show how far the last run on a database is, from another terminal or machine.

    It reads the run's journal, changes nothing and disturbs nobody: problems that are finished and
    that failed, the rate, and for each worker its problems, its share of the time at work, and what
    it finished last.

    \b
    Examples:
      convfind tune status
      convfind tune status tuned --json
    """
    state = read_state(chosen_database(app, database))
    if app.json:
        app.emit(dataclasses.asdict(state) | {"per_minute": state.rate})
        return
    rate = "" if state.rate is None else f", {state.rate:.1f} a minute"
    app.print(
        f"device   {state.device}",
        f"run      {_run_text(state)}; began {ago(state.began)}, strategy {state.strategy}",
        f"done     {state.finished:,} of {state.total:,} problems in this run{rate}; "
        f"{state.failed:,} failed, {state.quarantined:,} in quarantine, {state.died:,} deaths",
    )
    if state.dashboard:
        app.print(f"workers  {state.dashboard}")
    passed = max(state.latest - state.began, 1e-3)
    table = new_table("worker", "problems", "busy", "last", "", right=("problems", "busy"))
    for name, worker in state.workers.items():
        busy = f"{min(worker.seconds / passed, 1):.0%}"
        last = (worker.last_problem, ago(worker.last_time))
        table.add_row(name, f"{worker.problems:,}", busy, *last)
    if state.workers:
        app.print(table)


def _run_text(state: State) -> str:
    if state.is_running:
        return "under way"
    if not state.stopped:
        return f"ended without a word, {ago(state.latest)}; the same command continues it"
    return f"ended, {state.stopped}, {ago(state.latest)}; {state.remaining or 0:,} problems remain"
