"""Options that several commands of ``convfind tune`` share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App
from convfind.cli.problem_options import (
    batch_option,
    dims_option,
    direction_option,
    directions_of,
)
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.tune.sources import read_source
from convfind_finddb_tools.tune.sources.torch_module import read_torch_module
from convfind_finddb_tools.tune.workload import Reading, Workload, gather

Function = Callable[..., Any]

_SHOWN = 5  # refused convolutions of each source
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read a duration such as ``90``, ``30m`` or ``2h``; for use as a callback."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", value)
    if found is None:
        msg = f"{value!r} is no duration; write 90 (seconds), 30m, 2h or 1d"
        raise click.BadParameter(msg, context, parameter)
    return float(found[1]) * _UNITS[found[2]]


_OPTIONS = (
    click.argument("sources", nargs=-1, type=PATH, metavar="SOURCE..."),
    click.option(
        "--torch", "modules", multiple=True, metavar="MODULE:FACTORY", help="A module of PyTorch."
    ),
    click.option("--backward", is_flag=True, help="With --torch: its gradients too."),
    dims_option,
    batch_option,
    direction_option,
)


def takes_workload(*, required: bool = True) -> Callable[[Function], Function]:
    """Add sources and their options; the command receives ``workload``.

    It is None if none is required and none is given.
    """

    def decorate(function: Function) -> Function:
        def command(
            app: App,
            sources: tuple[Path, ...],
            modules: tuple[str, ...],
            backward: bool,
            dims: dict[str, int],
            batch: int | None,
            direction: str | None,
            **others: Any,
        ) -> Any:
            if not sources and not modules:
                if required:
                    raise click.UsageError("no problems given: name a file, or --torch")
                return function(app, workload=None, **others)
            if backward and not modules:
                raise click.UsageError(
                    "--backward is for --torch; --direction all asks for all directions of files"
                )
            readings = [read_source(path, dims, batch) for path in sources]
            readings += (read_torch_module(module, backward=backward) for module in modules)
            for reading in readings:
                _tell(app, reading)
            workload = gather(readings, directions_of(direction), batch)
            return function(app, workload=workload, **others)

        decorated: Function = functools.update_wrapper(command, function)
        for option in reversed(_OPTIONS):
            decorated = option(decorated)
        return decorated

    return decorate


def _tell(app: App, reading: Reading) -> None:
    """Print the refused lines of a source."""
    if reading.skipped:
        app.note(f"{reading.source}: {reading.skipped:,} other lines skipped")
    for refusal in reading.refused[:_SHOWN]:
        app.note(f"{reading.source}: {refusal.where} left out: {refusal.reason}")
    if len(reading.refused) > _SHOWN:
        app.note(f"{reading.source}: {len(reading.refused) - _SHOWN:,} more left out")


def workload_json(workload: Workload) -> list[dict[str, Any]]:
    """Return a workload as JSON, in the order in which its problems were read."""
    counts = workload.counts
    return [
        {"problem": problem.key, "count": counts[problem.key], "gflop": problem.flops / 1e9}
        for problem in workload.problems
    ]
