"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

import convfind
from convfind.cli.app import App
from convfind.cli.progress import ProgressBar
from convfind.plugins.registry import Registry
from convfind.types import Algorithm, DataType, Direction, Layout
from convfind_finddb_tools.selection import Selection

Function = Callable[..., Any]
T = TypeVar("T")

_STEP = 1024  # items between two looks at the clock

#: For arguments that name a database or a file: the command reports what is wrong with it.
PATH = click.Path(path_type=Path)


def chosen_database(app: App, path: Path | None) -> Path:
    """Return the named database, otherwise the one that finds use."""
    return app.settings.user_db_path if path is None else path


def watched(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Pass items on, with a progress bar if it takes long."""
    with ProgressBar(label, total) as bar:
        for number, item in enumerate(items):
            if not number % _STEP:
                bar.advance(label, number)
            yield item


def _age(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    days = {"h": 1 / 24, "d": 1.0, "w": 7.0}.get(value[-1:])
    if days is None or not value[:-1].isdecimal():
        msg = f"{value!r} is not an age; write 12h, 30d or 8w"
        raise click.BadParameter(msg, context, parameter)
    return int(value[:-1]) * days


def _layouts() -> click.Choice[str]:
    return click.Choice([layout.value for layout in Layout], case_sensitive=False)


_OPTIONS: dict[str, Function] = {
    "origin": click.option(
        "--origin", type=click.Choice(["convfind", "miopen"]), help="Who measured."
    ),
    "direction": click.option(
        "--direction", type=click.Choice([direction.short for direction in Direction])
    ),
    "dtype": click.option("--dtype", type=click.Choice([dtype.value for dtype in DataType])),
    "layout": click.option(
        "--layout", type=_layouts(), metavar="[NCHW|NHWC|..]", help="Layout of x."
    ),
    "device": click.option(
        "--device", metavar="TEXT", help="Part of the device's identity, e.g. gfx90a."
    ),
    "solver": click.option("--solver", metavar="ID", help="Records of this solver only."),
    "algorithm": click.option(
        "--algorithm", type=click.Choice([algorithm.value for algorithm in Algorithm])
    ),
    "package": click.option(
        "--package", metavar="NAME", help="Records of this distribution's solvers only."
    ),
    "stale": click.option(
        "--stale", is_flag=True, help="Records of another driver than the device here has now."
    ),
    "older_than": click.option(
        "--older-than", metavar="AGE", callback=_age, help="E.g. 12h, 30d, 8w."
    ),
    "newer_than": click.option(
        "--newer-than", metavar="AGE", callback=_age, help="E.g. 12h, 30d, 8w."
    ),
}


def _solvers_of(registry: Registry, package: str) -> list[str]:
    """Return the ids of a distribution's solvers that are installed."""
    ids = (solver.solver_id for solver in registry.solvers)
    return [one for one in ids if registry.package_of(one).partition(" ")[0] == package]


def takes_selection(function: Function) -> Function:
    """Add the options that choose entries; the command receives ``selection``."""
    return takes_selection_without()(function)


def takes_selection_without(*left_out: str) -> Callable[[Function], Function]:
    """Add the options except some, for commands in which these mean something else or nothing."""
    options = {name: option for name, option in _OPTIONS.items() if name not in left_out}

    def decorate(function: Function) -> Function:
        def command(app: App, **given: Any) -> Any:
            chosen = {name: given.pop(name) for name in options}
            drivers: dict[str, str] = {}
            if chosen.get("stale"):
                found = convfind.devices(registry=app.registry).devices
                drivers = {name: target.driver for _, target in found for name in target.identities}
            package = chosen.get("package")
            packaged = [] if package is None else _solvers_of(app.registry, package)
            selection = Selection(drivers=drivers, packaged=packaged, **chosen)
            return function(app, selection=selection, **given)

        decorated: Function = functools.update_wrapper(command, function)
        for option in reversed(options.values()):
            decorated = option(decorated)
        return decorated

    return decorate
