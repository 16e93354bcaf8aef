"""``convfind tune``: the group of commands, each imported when it is used."""

from __future__ import annotations

from importlib import import_module

import click

_HELP = """Tune all problems of a model or a log, here or on many devices at once.

\b
Examples:
  convfind tune list model.onnx --set batch=16          which problems there are
  convfind tune run resnet50.txt -n 16                  in this process
  convfind tune run model.onnx --batch 16 --workers 4   a worker for each of four GPUs
  convfind tune run app.log --scheduler tcp://head:8786 --budget 2h
  convfind tune status                                  how far a run is
  convfind tune simulate --workers 1000 --problems 1000000
"""

#: Name of each command, and the module of this package that has it, under its own name.
_COMMANDS = {
    "list": "tune_list",
    "run": "tune_run",
    "simulate": "tune_simulate",
    "status": "tune_status",
}


class _Group(click.Group):
    """Registered at every start of the program, so that it must cost nothing there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), module)
        return command


tune = _Group("tune", help=_HELP)
