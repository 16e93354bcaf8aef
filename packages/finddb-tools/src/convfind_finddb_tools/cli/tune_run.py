"""``convfind tune run``: tunes the problems of files and modules into a database."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind.errors import FindDbError
from convfind.settings import parse_size
from convfind.starting import INTERRUPTED
from convfind.types import Algorithm
from convfind_finddb_tools.cli.options import PATH, chosen_database
from convfind_finddb_tools.cli.tune_options import seconds, takes_workload
from convfind_finddb_tools.tune.campaign import Campaign
from convfind_finddb_tools.tune.interruption import Interruption
from convfind_finddb_tools.tune.launching import Launch, open_fleet
from convfind_finddb_tools.tune.order import Order, Strategy
from convfind_finddb_tools.tune.progress import TuneProgress
from convfind_finddb_tools.tune.run import Run, Summary
from convfind_finddb_tools.tune.workload import Workload, update_workload, workload_path

_SHOWN = 10
_BUDGET_SPENT = 3


def _size(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_size("--workspace-limit", value)


@click.command("run", cls=Command)
@click.option("--to", "database", type=PATH, metavar="DB", help="Database.  [the one finds use]")
@click.option(
    "--strategy",
    type=click.Choice([strategy.value for strategy in Strategy]),
    default=Strategy.DEFAULTS.value,
    show_default=True,
    help="How much is measured.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME",
    help="Such as opencl:0; repeatable with --workers.  [CONVFIND_DEVICE, else the best]",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Workers to start here, a device each; on one CPU one of them measures and the others "
    "compile; 0: this process tunes.",
)
@click.option(
    "--compilers",
    type=click.IntRange(min=0),
    help="More workers, which only compile.  [on a GPU: as many as cores allow]",
)
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of a running Dask cluster.")
@click.option("--budget", metavar="TIME", callback=seconds, help="Begin no problem after: 30m, 2h.")
@click.option("--problem-budget", metavar="TIME", callback=seconds, help="Time for one problem.")
@click.option("--quick", is_flag=True, help="Fewer samples: many problems in the same time.")
@click.option("--solver", "solvers", multiple=True, metavar="ID", help="Only this; repeatable.")
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    type=click.Choice([algorithm.value for algorithm in Algorithm]),
    help="Only this; repeatable.",
)
@click.option("--workspace-limit", metavar="BYTES", callback=_size, help="0, 512K, 64M, 1G.")
@click.option(
    "--again",
    is_flag=True,
    help="Also what is finished or in quarantine; records that are in the database stay.",
)
@click.option("--replay", type=PATH, metavar="DB", help="Take records from DB instead of a device.")
@click.option(
    "--pace",
    type=click.FloatRange(min=0),
    default=0.0,
    help="With --replay: 1 takes as long as measuring took.  [0: no time]",
)
@click.pass_obj
@takes_workload()
def tune_run(app: App, workload: Workload, database: Path | None, **given: Any) -> None:
    """Tune every problem of SOURCES that is not tuned yet.

    A SOURCE is a log with MIOpenDriver's commands (MIOPEN_ENABLE_LOGGING_CMD prints them), a layer
    file, a list of keys, an ONNX model (*.onnx) or JSON Lines (*.jsonl).

    Finished problems stay finished, whichever process dies: the same command resumes a run.
    Ctrl-C lets workers finish their current problems; a second one ends the program at once.

    The number of occurrences of each problem is kept in workload.jsonl beside the database.

    \b
    Exit codes: 0 all done; 1 an error, or problems failed or are in quarantine; 2 bad input;
    3 the budget was spent first; 130 interrupted.

    \b
    Examples:
      convfind tune run resnet50.txt -n 16 --direction all
      convfind tune run model.onnx --set batch=16 --strategy full --workers 4 --budget 2h
      convfind tune run app.log --scheduler tcp://head:8786 --to tuned
      convfind tune run resnet50.txt --replay recorded --to copy --workers 2
    """  # fmt: skip
    chosen = chosen_database(app, database)
    replay = given["replay"]
    if replay is not None and replay.resolve() == chosen.resolve():
        msg = f"{replay} is replayed, so that nothing can be tuned into it; give another by --to"
        raise FindDbError(msg)
    with Campaign(chosen) as campaign, TuneProgress() as progress, Interruption() as interruption:
        order = _order(given, str(campaign.shards.resolve()))
        launch = Launch(given["workers"], given["compilers"], given["scheduler"])
        fleet = open_fleet(order, launch, app.registry, app.settings)
        try:
            if given["again"]:
                campaign.forget(fleet.identity, [problem.key for problem in workload.problems])
            campaign.journal.write(
                "started", strategy=order.strategy.value, workers=fleet.workers,
                problems=len(workload.problems), device=fleet.identity.device,
                dashboard=fleet.dashboard,
            )  # fmt: skip
            if fleet.dashboard:
                progress.note(f"dashboard {fleet.dashboard}")
            _remember(chosen, workload)
            run = Run(
                campaign, fleet, workload.problems, workload.counts, order.strategy, progress,
                budget=given["budget"],
            )  # fmt: skip
            summary = run.go(interruption.asked)
        finally:
            fleet.close()
        if not summary.stopped:
            campaign.forget_shards()
    _print(app, summary, fleet.identity.device, chosen)
    code = _exit_code(summary)
    if code:
        raise click.exceptions.Exit(code)


def _order(given: dict[str, Any], shards: str) -> Order:
    policy = {
        "time_budget": given["problem_budget"],
        "workspace_limit": given["workspace_limit"],
        "solvers": sorted(given["solvers"]) or None,
        "algorithms": sorted(given["algorithms"]) or None,
        "quick": given["quick"] or None,
    }
    return Order(
        strategy=Strategy(given["strategy"]),
        devices=given["devices"],
        policy={name: value for name, value in policy.items() if value is not None},
        shards=shards,
        replay="" if given["replay"] is None else str(given["replay"].resolve()),
        pace=given["pace"],
    )


def _remember(database: Path, workload: Workload) -> None:
    path = workload_path(database)
    try:
        update_workload(path, workload)
    except OSError as exc:
        msg = f"{path} cannot be written: {exc.strerror or exc}"
        raise FindDbError(msg) from exc


def _exit_code(summary: Summary) -> int:
    if summary.stopped == "interrupted":
        return INTERRUPTED
    if summary.failed or summary.quarantined:
        return 1
    return _BUDGET_SPENT if summary.stopped else 0


def _print(app: App, summary: Summary, device: str, database: Path) -> None:
    if app.json:
        app.emit({"device": device, "database": str(database), **dataclasses.asdict(summary)})
        return
    app.print(
        f"device    {device}",
        f"problems  {summary.total:,}: {summary.finished:,} tuned now, {summary.before:,} before, "
        f"{summary.remaining:,} left{f' ({summary.stopped})' if summary.stopped else ''}",
        f"work      {summary.compiled:,} compiled, {summary.measured:,} measured, "
        f"{summary.seconds:.1f} s, {summary.merge_seconds:.2f} s of them merging",
    )
    if summary.deaths:
        app.print(f"deaths    {summary.deaths} workers died")
    for problem in summary.quarantined:
        app.print(f"left out  {problem}: killed three workers (--again tries it once more)")
    if summary.failed:
        table = new_table("failed", "reason")
        for problem, why in list(summary.failed.items())[:_SHOWN]:
            table.add_row(problem, why)
        app.print(table)
        if len(summary.failed) > _SHOWN:
            app.note(f"only the first {_SHOWN} of {len(summary.failed):,}; --json lists all")
