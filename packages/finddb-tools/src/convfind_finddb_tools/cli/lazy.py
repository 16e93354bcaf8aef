"""Commands besides ``convfind db`` that are imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class LazyCommand(click.Command):
    """Stands for a command of a module of this package, by the same name, until it is used."""

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
        command: click.Command = getattr(import_module(self._module), str(self.name))
        return command
