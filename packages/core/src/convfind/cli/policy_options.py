"""Options that say what a find may do, and on which device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from convfind.cli.completing import device_names, mode_words, solver_ids
from convfind.errors import SettingsError
from convfind.policy import FindMode, Isolate, Order
from convfind.problem.syntax.driver_line import MODES
from convfind.settings import parse_size
from convfind.types import Algorithm

Function = Callable[..., Any]


def device_option(function: Function) -> Function:
    """Add ``--device``."""
    return click.option(
        "--device",
        metavar="NAME",
        shell_complete=device_names,
        help="Such as opencl:0, opencl:cpu or opencl:nvidia.  [CONVFIND_DEVICE, else the best]",
    )(function)


def _read_size(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_size("--workspace-limit", value)


def _read_mode(_: click.Context, __: click.Parameter, value: str | None) -> FindMode | None:
    try:
        return None if value is None else FindMode.parse(value, "--mode")
    except SettingsError as exc:
        legal = f"{exc.allowed}; in a driver line also {' or '.join(MODES)}"
        raise SettingsError("--mode", value, legal) from None


_OPTIONS = (
    click.option(
        "--mode",
        metavar="MODE",
        callback=_read_mode,
        shell_complete=mode_words,
        help="Find mode, a word or its number: "
        f"{', '.join(mode.name.lower() for mode in FindMode)}.  [CONVFIND_FIND_MODE]",
    ),
    click.option(
        "--workspace-limit",
        metavar="BYTES",
        callback=_read_size,
        help="Scratch memory that a solution may need: 0, 512K, 64M, 1G.",
    ),
    click.option(
        "--time-budget",
        metavar="SECONDS",
        type=click.FloatRange(min=0),
        help="Time for one find; at least one solver is measured.",
    ),
    click.option(
        "--solver",
        "solvers",
        multiple=True,
        metavar="ID",
        shell_complete=solver_ids,
        help="Only this; repeatable.",
    ),
    click.option(
        "--algorithm",
        "algorithms",
        multiple=True,
        type=click.Choice([algorithm.value for algorithm in Algorithm]),
        help="Only this; repeatable.",
    ),
    click.option("--tune", is_flag=True, help="Search for better parameters of tunable solvers."),
    click.option(
        "--constant-weights",
        is_flag=True,
        help="Time with weights packed beforehand, as `Handle.bind` runs them.",
    ),
    click.option("--no-verify", is_flag=True, help="Do not compare results with a reference."),
    click.option(
        "--isolate",
        type=click.Choice([isolate.value for isolate in Isolate]),
        help="Run candidates in a child process, which may crash.  [CONVFIND_ISOLATE]",
    ),
    click.option(
        "--order",
        type=click.Choice([order.value for order in Order]),
        help="What comes first.  [time]",
    ),
)


def takes_policy(function: Function) -> Function:
    """Add the options; the command receives ``policy``, the fields that were given."""

    def command(
        solvers: tuple[str, ...],
        algorithms: tuple[str, ...],
        tune: bool,
        constant_weights: bool,
        no_verify: bool,
        **others: Any,
    ) -> Any:
        policy: dict[str, Any] = {
            name: others.pop(name)
            for name in ("mode", "workspace_limit", "time_budget", "isolate", "order")
        }
        policy["solvers"] = frozenset(solvers) or None
        policy["algorithms"] = frozenset(map(Algorithm, algorithms)) or None
        policy["tune"] = tune or None
        policy["constant_weights"] = constant_weights or None
        policy["verify"] = False if no_verify else None
        given = {name: value for name, value in policy.items() if value is not None}
        return function(policy=given, **others)

    decorated: Function = functools.update_wrapper(command, function)
    for option in reversed((device_option, *_OPTIONS)):
        decorated = option(decorated)
    return decorated
