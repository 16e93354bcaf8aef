"""``convfind network compile``: a model as a plan in a file."""

from __future__ import annotations

from pathlib import Path

import click

from convfind.cli.app import App, Command
from convfind_networks.cli.plan_options import PLAN_SUFFIX, PlanSource, summary_of, takes_plan


@click.command(cls=Command)
@takes_plan
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path),
    help=f"The file of the plan.  [MODEL with {PLAN_SUFFIX} for its suffix]",
)  # fmt: skip
def compile(app: App, source: PlanSource, output: Path | None) -> None:
    """Find all problems of MODEL, pack its weights, and write the plan to a file.

    A plan runs on the same device with the same solvers; `convfind network run` takes it as MODEL.

    \b
    Examples:
      convfind network compile resnet50.onnx --set batch=4
      convfind network run resnet50.plan
    """
    path = source.path.with_suffix(PLAN_SUFFIX) if output is None else output
    with source.opened() as plan:
        try:
            plan.save(path)
        except OSError as exc:
            raise click.ClickException(f"cannot write {path}: {exc.strerror or exc}") from exc
        if app.json:
            app.emit({"plan": str(path), **plan.explain().to_dict()})
            return
        app.print(*summary_of(plan), plan.explain(), f"written to {path}")
