"""Options and helpers of the commands that run: a model or a saved plan, compiled for a device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from convfind.cli.app import App
from convfind.cli.find import open_handle
from convfind.cli.policy_options import takes_policy
from convfind.cli.progress import ProgressBar
from convfind.text import format_bytes
from convfind.types import AccuracyClass
from convfind_networks.cli.options import read_network, shapes_option, telling_unsupported
from convfind_networks.plan import Plan

#: Saved plans have this suffix.
PLAN_SUFFIX = ".plan"

#: Kinds of operations whose factors may be rounded.
_MULTIPLYING = ("Convolution", "Linear", "MatMul")

Function = Callable[..., Any]


@dataclass(frozen=True)
class PlanSource:
    """A model, or a plan that was saved, and what its compilation may do."""

    app: App
    path: Path
    shapes: dict[str, Any]
    device: str | None
    policy: dict[str, Any]
    how: dict[str, Any]  # keywords of `Network.compile`

    @contextmanager
    def opened(self) -> Iterator[Plan]:
        """Open the device and compile, or load; ends with the device."""
        with open_handle(self.app, self.device, self.policy) as handle:
            if self.path.suffix == PLAN_SUFFIX:
                yield Plan.load(self.path, handle)
                return
            network = read_network(self.path)
            with telling_unsupported(self.app), ProgressBar() as progress:
                plan = network.compile(
                    handle,
                    self.shapes,
                    on_progress=progress,
                    **self.how,
                    **self.policy,
                )
            for note in plan.schedule.notes:
                self.app.note(f"note: {note}")
            yield plan


#: Options by the keyword of `Network.compile` that each gives.
_HOW = {
    "channels_last": click.option(
        "--channels-last/--channels-first", default=None,
        help="How values lie where they can.  [as the device wants it]",
    ),
    "allow_tf32": click.option(
        "--allow-tf32", is_flag=True, callback=lambda *given: _MULTIPLYING if given[-1] else (),
        help="Allow products of float32 rounded to TF32.",
    ),
    "autocast": click.option(
        "--autocast", type=click.Choice(["float16", "bfloat16"]),
        help="Compute the products of a float32 network in this type.",
    ),
    "deterministic": click.option(
        "--deterministic", is_flag=True, help="The same bits in every run.",
    ),
    "accuracy": click.option(
        "--accuracy", type=click.Choice([one.value for one in AccuracyClass]), default="normal",
        help="Rounding error that convolutions may have; strict: that of plain sums.  [normal]",
    ),
    "rehearse": click.option(
        "--rehearse", is_flag=True,
        help="Time the fastest solutions within runs of the network, too, and use the fastest.",
    ),
}  # fmt: skip


def takes_plan(function: Function) -> Function:
    """Add the model or plan and how it is compiled; the command receives ``source``."""

    @takes_policy
    @click.pass_obj
    @functools.wraps(function)
    def command(
        app: App,
        /,
        model: Path,
        shapes: dict[str, Any],
        device: str | None,
        policy: dict[str, Any],
        **others: Any,
    ) -> None:
        if model.suffix == PLAN_SUFFIX:
            _refuse_what_is_decided(model)
        how = {name: others.pop(name) for name in _HOW}
        source = PlanSource(app, model, shapes, device, policy, how)
        function(app, source=source, **others)

    for option in reversed(_HOW.values()):
        command = option(command)
    takes_model = click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
    return takes_model(shapes_option(command))


def _refuse_what_is_decided(path: Path) -> None:
    """Refuse options that a plan was compiled with, or without. Raises `click.UsageError`."""
    context = click.get_current_context()
    given = {
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in ("shapes", *_HOW)
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }
    if given:
        names = ", ".join(sorted(given))
        raise click.UsageError(f"{path} is compiled already; {names}: compile its model again")


def summary_of(plan: Plan) -> tuple[str, ...]:
    """Return what a plan is, in lines."""
    schedule = plan.schedule
    return (
        f"network  {schedule.network}",
        f"device   {schedule.device}",
        f"tasks    {len(schedule.tasks):,}, {schedule.flops / 1e9:,.2f} GFLOP",
        f"memory   {format_bytes(schedule.arena)} between tasks, "
        f"{format_bytes(schedule.constants)} of weights",
    )
