"""``convfind db``: the group of commands, each imported when it is used."""

from __future__ import annotations

from importlib import import_module

import click

_HELP = """Look into find databases, compare and merge them, exchange them with MIOpen.

A database is a folder that holds finddb.lmdb, or such a file; where DB is optional, it is the one
that finds use.

\b
Examples:
  convfind db import gfx90a68.HIP.fdb.txt.bz2 --to mi250
  convfind db stats mi250
  convfind db list mi250 --direction fwd --dtype float16 --solver ConvBinWinogradRxSf2x3
  convfind db export mi250 --format miopen --output gfx90a68.HIP.fdb.txt
  convfind db merge node1 node2 --to all
"""

#: Name of each command, and where in this package it is: module and name.
_COMMANDS = {
    "compact": ("compact", "compact"),
    "convert": ("convert", "convert"),
    "diff": ("diff", "diff"),
    "explain": ("explain", "explain"),
    "export": ("export", "export"),
    "gc": ("gc", "gc"),
    "import": ("import_", "import_"),
    "install": ("install", "install"),
    "keygen": ("keygen", "keygen"),
    "list": ("listing", "list_"),
    "merge": ("merge", "merge"),
    "pack": ("pack", "pack"),
    "packs": ("packs", "packs"),
    "quarantine": ("quarantine", "quarantine"),
    "repair": ("repair", "repair"),
    "serve": ("serve", "serve"),
    "show": ("show", "show"),
    "sign": ("sign", "sign"),
    "stats": ("stats", "stats"),
    "verify": ("verify", "verify"),
}


class _Group(click.Group):
    """Registered at every start of the program, so that it must cost nothing there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), name)
        return command


db = _Group("db", help=_HELP)
