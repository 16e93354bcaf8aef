"""`App`: what the commands share in one run of the program, and the options that all have."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import click
from rich.console import Console
from rich.protocol import rich_cast
from rich.table import Table

from convfind.cli.driver_arguments import join_driver_line
from convfind.cli.narrow import narrow, wrapped
from convfind.log import show_messages
from convfind.plugins.registry import Registry
from convfind.settings import Settings
from convfind.text import new_table as new_table  # most commands print one

#: Tables keep their natural width where nobody knows how much room there is.
_WIDTH = 250


class App:
    """Registry, settings and output of one run of the program; the ``obj`` of click's context."""

    def __init__(self, registry: Registry, settings: Settings | None = None) -> None:
        self.registry = registry
        self.json = False
        self.debug = False
        self.has_emitted = False  # a document, of which standard output has one at most
        self._settings = settings

    @cached_property
    def settings(self) -> Settings:
        """The settings in force. Raises `SettingsError` where the environment is illegal."""
        return self._settings or Settings.from_environment()

    def emit(self, data: object) -> None:
        """Print the JSON document that is the only output on standard output."""
        self.has_emitted = True
        click.echo(json.dumps(data, indent=2, allow_nan=False))

    def print(self, *items: object) -> None:
        """Print lines or tables for people; on a narrow terminal they take more lines."""
        console = Console(highlight=False, markup=False, emoji=False)
        room, console.width = console.width, max(console.width, _WIDTH)
        for item in map(rich_cast, items):
            if isinstance(item, str) and console.is_terminal:
                console.print("\n".join(wrapped(item, room)), soft_wrap=True)
            elif not isinstance(item, Table):
                console.print(item, soft_wrap=True)
            elif console.is_terminal and console.measure(item).maximum > room:
                console.print("\n".join(narrow(item, room)), soft_wrap=True)
            else:
                console.print(item)

    def note(self, message: str) -> None:
        """Print a message that is no result, to standard error."""
        click.echo(message, err=True)


def _set_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(App).json = True


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(App).debug = True
        show_messages("debug")


def _set_verbose(_: click.Context, __: click.Parameter, value: bool) -> None:
    if value:
        show_messages("info")


def common_options() -> list[click.Parameter]:
    """Return the options that every command has."""
    flags = (
        ("--json", _set_json, "Print JSON on standard output, and nothing else there."),
        ("--verbose", _set_verbose, "Tell on standard error what is going on."),
        ("--debug", _set_debug, "Tell more, and print a traceback with an error."),
    )
    return [
        click.Option([name], is_flag=True, expose_value=False, callback=callback, help=text)
        for name, callback, text in flags
    ]


class Command(click.Command):
    """A command with the common options; plugins may use it for theirs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += common_options()


class ProblemCommand(Command):
    """A command whose problem may be a MIOpenDriver line without quotes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the words of such a line into one argument."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # a shell completes a line that is not whole
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        flags = {name: option.is_flag for option in options for name in option.opts}
        return super().parse_args(ctx, join_driver_line(args, flags))
