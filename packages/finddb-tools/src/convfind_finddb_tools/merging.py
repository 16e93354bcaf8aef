"""Merging databases by the rule of `convfind_finddb_tools.joining`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from convfind.errors import FindDbError
from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import file_in
from convfind.finddb.record import FindEntry
from convfind_finddb_tools.database import Snapshot, Writer, database_path
from convfind_finddb_tools.entry import split_key
from convfind_finddb_tools.joining import JOINS, join_entries, join_into, record_identity
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.tune.workload import (
    join_workloads,
    read_workload,
    workload_path,
    write_workload,
)

_BATCH = 20_000  # values in one transaction, which bounds the memory that it takes
_CONFLICT = 1.1  # times farther apart than this are worth a look
_MOST_LISTED = 10_000
_EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two measurements of one solver on one problem that disagree by more than 10 %."""

    device: str
    problem: str
    solver: str
    kept_ms: float
    dropped_ms: float


@dataclass(slots=True)
class MergeReport:
    """Result of a merge; `conflicts` lists at most 10,000 of the ``conflicting``.

    ``networks`` counts those whose workloads are beside the output now.
    """

    read: int = 0
    changed: int = 0
    damaged: int = 0
    conflicting: int = 0
    networks: int = 0
    conflicts: list[Conflict] = field(default_factory=list)


def merge_databases(
    sources: Sequence[Path],
    output: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    selection: Selection = _EVERYTHING,
) -> MergeReport:
    """Join the selected parts of databases into another one, created if missing.

    Existing contents of the output take part. Workloads beside the databases are joined whole:
    a network has all its problems, whichever were selected.

    An interrupted merge may simply be repeated.

    Raises:
        FindDbError: a database cannot be used, or the output is a source too.
        ProblemError: a workload beside one of them is malformed; nothing is changed.
    """
    check_distinct([database_path(path) for path in sources], file_in(output, FILE_NAME))
    report = MergeReport()
    workload = join_workloads(read_workload(workload_path(path)) for path in (output, *sources))
    snapshots: list[Snapshot] = []
    try:
        snapshots += (Snapshot(path) for path in sources)
        total = sum(snapshot.count(table) for snapshot in snapshots for table in JOINS)
        size = sum(snapshot.path.stat().st_size for snapshot in snapshots)
        with Writer(output, room=2 * size) as writer:
            for snapshot in snapshots:
                for table in JOINS:
                    _merge_table(snapshot, writer, table, selection, report, total, on_progress)
                snapshot.close()  # its pages, all of which were read, would count as ours
    finally:
        for snapshot in snapshots:
            snapshot.close()
    if workload:
        write_workload(workload_path(output), workload)
    report.networks = len({line.source for line in workload})
    return report


def check_distinct(sources: Sequence[Path], output: Path) -> None:
    """Raise `FindDbError` where the output of a command is one of its sources."""
    if output.exists() and any(path.resolve() == output.resolve() for path in sources):
        msg = f"{output} is a source as well; write to another database"
        raise FindDbError(msg)


def _merge_table(
    snapshot: Snapshot,
    writer: Writer,
    table: str,
    selection: Selection,
    report: MergeReport,
    total: int,
    on_progress: Callable[[int, int], None],
) -> None:
    join = JOINS[table]
    items = snapshot.items(table)
    while batch := list(islice(items, _BATCH)):

        def work(
            change: Change, batch: list[tuple[bytes, bytes]] = batch
        ) -> tuple[int, int, list[Conflict]]:
            changed = damaged = 0
            conflicts: list[Conflict] = []
            for key, sealed in batch:
                value = join.unpack(key, sealed, snapshot.get)
                if value is None:
                    damaged += 1
                    continue
                value = selection.narrowed(table, key, value)
                if value is None:
                    continue

                def compare(old: Any, new: Any, key: bytes = key) -> None:
                    if isinstance(old, FindEntry):
                        conflicts.extend(find_conflicts(key, old, new))

                changed += join_into(change, table, key, value, compare)
            return changed, damaged, conflicts

        changed, damaged, conflicts = writer.change(work)
        report.read += len(batch)
        report.changed += changed
        report.damaged += damaged
        report.conflicting += len(conflicts)
        report.conflicts += conflicts[: _MOST_LISTED - len(report.conflicts)]
        on_progress(report.read, total)
        writer.trim()


def find_conflicts(key: bytes, old: FindEntry, new: FindEntry) -> list[Conflict]:
    """Measurements of the same thing in two entries that disagree."""
    theirs = {record_identity(record): record for record in new.records}
    kept = {record_identity(record): record for record in join_entries(old, new).records}
    found = []
    for mine in old.records:
        identity = record_identity(mine)
        other = theirs.get(identity)
        if other is None:
            continue
        low, high = sorted((mine.time_ms, other.time_ms))
        if high > _CONFLICT * low:
            winner = kept[identity].time_ms
            dropped = other.time_ms if winner == mine.time_ms else mine.time_ms
            found.append(Conflict(*split_key(key), mine.solver, winner, dropped))
    return found
