"""The reference of the program, from the help of its click commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from convfind.cli.program import build_program
from convfind.plugins.registry import default_registry


def page() -> str:
    """Return every command with its help and options as Markdown."""
    program = build_program(default_registry())
    return "\n\n".join(_sections(program, None, "convfind"))


def _sections(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=name.rpartition(" ")[2])
    context.max_content_width = context.terminal_width = 88
    depth = "#" * min(2 + name.count(" "), 4)
    yield f"{depth} {name}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _sections(found, context, f"{name} {child}")
