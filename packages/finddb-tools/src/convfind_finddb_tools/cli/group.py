"""``convfind db``: the group of commands."""

from __future__ import annotations

import click

from convfind_finddb_tools.cli.compact import compact
from convfind_finddb_tools.cli.diff import diff
from convfind_finddb_tools.cli.export import export
from convfind_finddb_tools.cli.gc import gc
from convfind_finddb_tools.cli.import_ import import_
from convfind_finddb_tools.cli.listing import list_
from convfind_finddb_tools.cli.merge import merge
from convfind_finddb_tools.cli.repair import repair
from convfind_finddb_tools.cli.show import show
from convfind_finddb_tools.cli.stats import stats
from convfind_finddb_tools.cli.verify import verify

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

db = click.Group("db", help=_HELP)
for command in (stats, list_, show, diff, merge, import_, export, verify, gc, compact, repair):
    db.add_command(command)
