"""Removing selected records, so that a find measures them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from convfind.finddb.change import Change
from convfind.finddb.key import SCHEMA, seal, stored_key
from convfind.finddb.record import FindEntry
from convfind.finddb.table import FIND
from convfind_finddb_tools.database import FOREIGN, Writer
from convfind_finddb_tools.entry import Entry
from convfind_finddb_tools.miopen_text import results
from convfind_finddb_tools.sealed import open_foreign


def remove(database: Path, entries: Sequence[Entry]) -> int:
    """Remove records in one transaction; returns how many were still there.

    A solver whose records are removed no longer counts as considered.
    """
    with Writer(database) as writer:

        def work(change: Change) -> int:
            return sum(_remove(change, entry) for entry in entries)

        return writer.change(work)


def _remove(change: Change, entry: Entry) -> int:
    key = f"{SCHEMA}|{entry.device}|{entry.problem}".encode()
    table = FIND.name if entry.origin == "convfind" else FOREIGN
    sealed = change.get(table, stored_key(key))
    if sealed is None:
        return 0
    shrink = _without_records if entry.origin == "convfind" else _without_foreign
    removed, left = shrink(change, key, sealed, entry)
    if left is None:
        change.delete(table, stored_key(key))
    elif removed:
        change.put(table, stored_key(key), left)
    return removed


def _without_records(
    change: Change, key: bytes, sealed: bytes, entry: Entry
) -> tuple[int, bytes | None]:
    """Return the number of removed records, and the value that remains."""
    old = FIND.unpack(key, sealed, change.get)
    if old is None:
        return 0, None
    gone = [result.record for result in entry.results]
    kept = tuple(record for record in old.records if record not in gone)
    removed = len(old.records) - len(kept)
    if not kept:
        return removed, None
    forgotten = {f"{record.solver}@{record.solver_version}" for record in gone if record}
    considered = tuple(name for name in old.considered if name not in forgotten)
    return removed, FIND.pack(key, FindEntry(records=kept, considered=considered), change)


def _without_foreign(
    change: Change, key: bytes, sealed: bytes, entry: Entry
) -> tuple[int, bytes | None]:
    old = open_foreign(key, sealed)
    if old is None:
        return 0, None
    gone = {(result.solver, result.time_ms) for result in entry.results}
    every = list(results(old))
    kept = [result for result in every if (result.solver, result.time_ms) not in gone]
    text = ";".join(result.text for result in kept).encode()
    return len(every) - len(kept), seal(key, text) if kept else None
