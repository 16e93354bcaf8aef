"""``convfind network profile``: where the time of a network goes."""

from __future__ import annotations

import json
from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind_networks.cli.plan_options import PlanSource, takes_plan


@click.command(cls=Command)
@takes_plan
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, help="Medians are of so many.  [5]"
)
@click.option(
    "--trace", type=click.Path(dir_okay=False, path_type=Path),
    help="Write a trace for Chrome's viewer or Perfetto.",
)  # fmt: skip
def profile(app: App, source: PlanSource, rounds: int, trace: Path | None) -> None:
    """Time every task of MODEL by itself, and the whole.

    Each task is timed on the device, in the order of the network.

    \b
    Examples:
      convfind network profile resnet50 --set batch=4 --time-budget 40
      convfind network profile model.onnx --set batch=4
      convfind network profile resnet50.plan --trace resnet50.json
    """
    with source.opened() as plan:
        found = plan.profile(rounds=rounds)
    if trace is not None:
        try:
            trace.write_text(json.dumps(found.trace()), encoding="utf-8")
        except OSError as exc:
            raise click.ClickException(f"cannot write {trace}: {exc.strerror or exc}") from exc
    if app.json:
        app.emit(found.to_dict())
        return
    app.print(
        found,
        f"the tasks {found.sum_ms:.3f} ms, the whole network {found.whole_ms:.3f} ms, "
        f"on {found.device}",
    )
