"""Saving the readable values of a damaged database into another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from convfind.errors import FindDbError
from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import file_in
from convfind.finddb.key import SCHEMA, full_key
from convfind.finddb.roster import roster_names
from convfind_finddb_tools.database import Writer
from convfind_finddb_tools.joining import JOINS, join_into
from convfind_finddb_tools.merging import check_distinct
from convfind_finddb_tools.pages import leaf_values
from convfind_finddb_tools.text_kinds import KINDS

_BATCH = 20_000
_PREFIX = f"{SCHEMA}|".encode()


def salvage(source: Path, output: Path) -> Counter[str]:
    """Join every whole value of a damaged file into a database; counts them by sub-database.

    Pages that are no longer in use are read too: an older state of a record may come back, and lose
    against the newer by its evidence.

    Raises:
        FindDbError: a file cannot be used, or nothing in the damaged one is whole.
    """
    file = source if source.is_file() else file_in(source, FILE_NAME)
    check_distinct([file], file_in(output, FILE_NAME))
    values = _whole_values(file)
    saved: Counter[str] = Counter()
    batch = list(islice(values, _BATCH))
    if not batch:
        msg = f"{file} holds no value that is whole"
        raise FindDbError(msg)
    with Writer(output, room=2 * file.stat().st_size) as writer:
        while batch:

            def work(change: Change, batch: list[tuple[str, bytes, Any]] = batch) -> Counter[str]:
                changed: Counter[str] = Counter()
                for table, key, value in batch:
                    changed[table] += join_into(change, table, key, value)
                return changed

            saved += writer.change(work)
            batch = list(islice(values, _BATCH))
    return saved


def _whole_values(file: Path) -> Iterator[tuple[str, bytes, Any]]:
    """Sub-database, full key and content of what is whole; an empty value is of no use."""
    rosters = {key: sealed for key, sealed in leaf_values(file) if roster_names(key, sealed)}
    for stored, sealed in leaf_values(file):
        if not stored.startswith(_PREFIX):
            continue
        key = full_key(stored, sealed)
        for table, join in JOINS.items():
            if (table in KINDS) != key.startswith(_PREFIX + b"miopen|"):
                continue
            value = join.unpack(key, sealed, lambda _, digest: rosters.get(digest))
            if value:
                yield table, key, value
                break
