"""``convfind db``: the group of commands, each imported when it is used."""

from __future__ import annotations

from convfind.cli.lazy import LazyGroup

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

#: Name of each command, and the module of this package that has it, under its own name.
_COMMANDS = {
    "compact": "compact",
    "convert": "convert",
    "diff": "diff",
    "explain": "explain",
    "export": "export",
    "gc": "gc",
    "import": "import_",
    "install": "install",
    "keygen": "keygen",
    "list": "listing",
    "merge": "merge",
    "pack": "pack",
    "packs": "packs",
    "quarantine": "quarantine",
    "repair": "repair",
    "serve": "serve",
    "show": "show",
    "sign": "sign",
    "stats": "stats",
    "verify": "verify",
}

db = LazyGroup("db", "convfind_finddb_tools.cli", _COMMANDS, _HELP)
