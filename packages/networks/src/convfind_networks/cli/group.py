"""``convfind network``: the group of commands, each imported when it is used."""

from __future__ import annotations

from importlib import import_module

import click

_HELP = """Run a network: an ONNX model, or a program that torch.export saved (*.pt2).

resnet50, vgg16 and mobilenet_v2 are built in, with random weights.

\b
Examples:
  convfind network run model.onnx --set batch=4
  convfind network profile resnet50 --set batch=4
  convfind network explain resnet50.onnx --set batch=4
  convfind network problems model.onnx --set x=4,3,224,224 --channels-last --json
"""

#: Name of each command; the module of this package that has it has its name.
_COMMANDS = ("bench", "compile", "explain", "problems", "profile", "run")


class _Group(click.Group):
    """Registered at every start of the program, so that it must cost nothing there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"{__package__}.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command


network = _Group("network", help=_HELP)
