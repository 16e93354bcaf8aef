"""`LazyCommand`, `LazyGroup`: commands that are imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyCommand(click.Command):
    """Stands for a command of a module, by the same name, until it is used."""

    def __init__(self, name: str, module: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._module = module

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Import the command and let it read its arguments; it is the context's command."""
        return self._command().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command itself, for pages and completions about it."""
        return self._command().get_params(ctx)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help of the command itself."""
        return self._command().get_help(ctx)

    def _command(self) -> click.Command:
        return _command_of(self._module, str(self.name))


class LazyGroup(click.Group):
    """A group whose commands are modules: registered at every start, it costs nothing there.

    Args:
        name: of the group.
        package: where the modules are.
        commands: by the name of each, the module that has it, under the module's own name.
        text: the help of the group.
    """

    def __init__(self, name: str, package: str, commands: Mapping[str, str], text: str) -> None:
        super().__init__(name, help=text)
        self._package = package
        self._modules = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        module = self._modules.get(cmd_name)
        return None if module is None else _command_of(f"{self._package}.{module}", module)


def _command_of(module: str, name: str) -> click.Command:
    command: click.Command = getattr(import_module(module), name)
    return command
