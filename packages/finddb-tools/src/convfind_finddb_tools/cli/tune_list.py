"""``convfind tune list``: the problems of files and modules, without tuning them."""

from __future__ import annotations

import click

from convfind.cli.app import App, Command, new_table
from convfind_finddb_tools.cli.tune_options import takes_workload, workload_json
from convfind_finddb_tools.tune.workload import Workload


@click.command("list", cls=Command)
@click.pass_obj
@takes_workload()
def tune_list(app: App, workload: Workload) -> None:
    """List the distinct problems of SOURCES, and how often each occurs.

    A SOURCE is a log with MIOpenDriver's commands (MIOPEN_ENABLE_LOGGING_CMD prints them), a layer
    file, a list of keys, an ONNX model (*.onnx) or JSON Lines (*.jsonl).

    \b
    Examples:
      convfind tune list app.log
      convfind tune list model.onnx --set batch=16 --direction all
      convfind tune list --torch mymodels:resnet --backward --json
    """
    listed = workload_json(workload)
    if app.json:
        app.emit({"problems": listed, "occurrences": sum(workload.counts.values())})
        return
    table = new_table("problem", "x", "GFLOP", right=("x", "GFLOP"))
    for one in listed:
        table.add_row(one["problem"], str(one["count"]), f"{one['gflop']:.3f}")
    app.print(table)
    app.print(f"{len(listed):,} problems, {sum(workload.counts.values()):,} occurrences")
