"""`command_examples`: the examples in the help of a program's commands, for tests that run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click


def command_examples(
    command: click.Command, parent: click.Context | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name of each command below and including this one, and its examples.

    An example is a line of the help that begins with the program's name. A wide gap is followed
    by its explanation, a pipe or a redirection by words of the shell's.
    """
    context = command.context_class(
        command, parent=parent, info_name=command.name, **command.context_settings
    )
    text = command.get_help(context).replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    examples = (
        re.split(r"\s{3,}| [|>] ", line)[0] for line in lines if line.startswith("convfind ")
    )
    yield context.command_path, tuple(examples)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from command_examples(below, context)


def words_of(example: str) -> list[str]:
    """Split an example into the arguments of the program."""
    return shlex.split(example)[1:]
