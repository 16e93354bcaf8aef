"""Writing packs: a new database without free space, then its manifest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import lmdb

from convfind.finddb.environment import Layout, Transaction
from convfind.finddb.pack import Manifest, Pack, append_manifest, check_name, read_pack
from convfind.finddb.plain_errors import plain_errors
from convfind.finddb.replacing import copy_file

#: Puts values into sub-databases, by name, and returns what the pack says of them.
Fill = Callable[[Mapping[str, "lmdb._Database"], Transaction], Manifest]


def write_pack_file(output: Path, layout: Layout, room: int, fill: Fill) -> Pack:
    """Write a pack, complete or not at all. The same values always give the same bytes.

    Args:
        output: the file.
        layout: its sub-databases.
        room: how many bytes its values may take.
        fill: stores them, in the order of their keys; may refuse.

    Raises:
        FindDbError: the file cannot be written.
    """
    check_name(output)
    with tempfile.TemporaryDirectory(prefix="convfind-pack-") as folder:
        draft, grown = Path(folder) / "draft.lmdb", Path(folder) / "grown.lmdb"
        with plain_errors(draft):
            with (
                lmdb.open(
                    os.fsencode(grown),
                    subdir=False,
                    map_size=room,
                    max_dbs=len(layout.tables) + 1,
                    lock=False,
                    sync=False,
                    lib_version=0,  # the format of LMDB 0.9
                ) as environment,
                environment.begin(write=True) as transaction,
            ):
                meta = environment.open_db(b"meta", txn=transaction)
                transaction.put(b"schema", str(layout.schema).encode(), db=meta)
                handles = {
                    name: environment.open_db(name.encode(), txn=transaction)
                    for name in layout.tables
                }
                manifest = fill(handles, transaction)
            with (
                lmdb.open(
                    os.fsencode(grown), subdir=False, readonly=True, lock=False
                ) as environment,
                draft.open("xb") as file,
            ):
                environment.copyfd(file.fileno(), compact=True)
        with draft.open("r+b") as written:
            append_manifest(written, manifest)
        copy_file(draft, output)
    return read_pack(output)
