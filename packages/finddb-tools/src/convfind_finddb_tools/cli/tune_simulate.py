"""``convfind tune simulate``: predicts the effect of workers, a strategy or a budget."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App, Command, new_table
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.cli.tune_options import seconds, takes_workload
from convfind_finddb_tools.tune.comparison import Compared, Recorded
from convfind_finddb_tools.tune.order import Strategy
from convfind_finddb_tools.tune.simulation import Costs, Scenario, Simulation, SimulationReport
from convfind_finddb_tools.tune.workload import Workload

_SPREAD = (
    0.7  # of the logarithm of the seconds that a problem takes: about 4 times from low to high
)
_SOURCE = (
    "measured: what the head needs for a batch, a problem and a merge (docs/tuning.md says where). "
    "modelled: workers, deaths, and how long a problem takes"
)


@click.command("simulate", cls=Command)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1000,),
    show_default=True,
    help="Repeatable.",
)
@click.option(
    "--problems",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="How many, without --replay.",
)
@click.option(
    "--seconds",
    "typical",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Median time of a problem, without --replay.",
)
@click.option("--replay", type=PATH, metavar="DB", help="Compare strategies on its measurements.")
@click.option("--device", metavar="TEXT", help="With --replay: part of a device's identity.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice([strategy.value for strategy in Strategy]),
    help="With --replay; repeatable.  [all]",
)
@click.option("--budget", metavar="TIME", callback=seconds, help="Begin no problem after: 30m, 2h.")
@click.option("--mean-life", metavar="TIME", callback=seconds, help="A worker dies after: 6h.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the random numbers.")
@click.pass_obj
@takes_workload(required=False)
def tune_simulate(app: App, workload: Workload | None, **given: Any) -> None:
    """Simulate campaigns: duration, load of the workers and of the head, length of the queue.

    Without --replay problems are invented. With it they are those of the database (of SOURCES, if
    given, with their occurrences), and strategies are compared by what they would have found.

    \b
    Examples:
      convfind tune simulate --workers 100 --workers 1000 --problems 1000000
      convfind tune simulate --workers 1000 --mean-life 6h --json
      convfind tune simulate resnet50.txt -n 16 --replay recorded --workers 4 --budget 10m
    """  # fmt: skip
    if given["replay"] is None:
        if workload is not None:
            raise click.UsageError("sources are for --replay; without it problems are made up")
        _scale(app, given)
    else:
        _compare(app, workload, given)


def _scale(app: App, given: dict[str, Any]) -> None:
    count, typical = given["problems"], given["typical"]
    numbers = random.Random(given["seed"])
    lasting = {str(name): typical * numbers.lognormvariate(0, _SPREAD) for name in range(count)}
    documents, rows = [], []
    for workers in given["workers"]:
        began = time.perf_counter()
        report = Simulation(
            Scenario(
                workers, tuple(lasting), lasting.__getitem__,
                budget=given["budget"], mean_life=given["mean_life"], seed=given["seed"],
            )
        ).go()  # fmt: skip
        document = {"workers": workers, "problems": count, **_json(report)}
        documents.append(document | {"simulated_in_s": time.perf_counter() - began})
        rows.append((workers, report))
    if app.json:
        costs = dataclasses.asdict(Costs())
        app.emit({"runs": documents, "costs_s": costs, "basis": _SOURCE})
        return
    columns = ("workers", "problems", "hours", "busy", "head", "queue max", "mean", "merging s")
    table = new_table(*columns, "deaths", right=(*columns, "deaths"))
    for workers, report in rows:
        table.add_row(
            f"{workers:,}", f"{len(report.finished):,}", f"{report.seconds / 3600:.3f}",
            f"{report.busy:.1%}", f"{report.head_load:.1%}", f"{report.queue_most:,}",
            f"{report.queue_mean:.2f}", f"{report.merge_seconds:.1f}", f"{report.deaths:,}",
        )  # fmt: skip
    app.print(table)
    app.print(_SOURCE)


def _compare(app: App, workload: Workload | None, given: dict[str, Any]) -> None:
    recorded = Recorded(
        Path(given["replay"]), given["device"], None if workload is None else workload.problems
    )
    counts = {} if workload is None else workload.counts
    strategies = [Strategy(word) for word in given["strategies"]] or list(Strategy)
    compared = [
        recorded.compare(
            strategy, workers, counts, budget=given["budget"], mean_life=given["mean_life"]
        )
        for strategy in strategies
        for workers in given["workers"]
    ]
    if app.json:
        app.emit({"device": recorded.device, "runs": [_compared_json(one) for one in compared]})
        return
    app.print(f"device    {recorded.device}")
    columns = ("workers", "problems", "reached", "seconds", "busy", "found ms", "best ms", "loss")
    table = new_table("strategy", *columns, right=columns)
    for one in compared:
        table.add_row(
            one.strategy.value, f"{one.workers:,}", f"{one.problems:,}",
            f"{len(one.report.finished):,}", f"{one.report.seconds:.1f}", f"{one.report.busy:.1%}",
            f"{one.found_ms:.3f}", f"{one.best_ms:.3f}", f"{_loss(one):.2%}",
        )  # fmt: skip
    app.print(table)


def _loss(one: Compared) -> float:
    return one.found_ms / one.best_ms - 1 if one.best_ms else 0.0


def _json(report: SimulationReport) -> dict[str, Any]:
    return {**dataclasses.asdict(report), "finished": len(report.finished)}


def _compared_json(one: Compared) -> dict[str, Any]:
    return {
        "strategy": one.strategy.value, "workers": one.workers, "budget_s": one.budget,
        "problems": one.problems, "found_ms": one.found_ms, "best_ms": one.best_ms,
        "loss": _loss(one), **_json(one.report),
    }  # fmt: skip
