"""Solvers in quarantine, with why and since when, and lifting it so that finds try them again."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from convfind.finddb.change import Change
from convfind.finddb.key import SCHEMA, stored_key
from convfind.finddb.merge import reconsidered
from convfind.finddb.record import QuarantineRecord
from convfind.finddb.table import FIND, QUARANTINE
from convfind_finddb_tools.database import Snapshot, Writer
from convfind_finddb_tools.entry import split_key
from convfind_finddb_tools.selection import Selection


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A solver that failed for a problem on a device."""

    device: str
    problem: str  # network config
    record: QuarantineRecord

    @property
    def key(self) -> bytes:
        """The full key of the problem on the device."""
        return f"{SCHEMA}|{self.device}|{self.problem}".encode()


def quarantined(
    snapshot: Snapshot, selection: Selection, problems: Container[str] | None = None
) -> Iterator[Quarantined]:
    """Read what is selected, in the order of the keys; of these problems only, where given."""
    for key, sealed in snapshot.items(QUARANTINE.name):
        device, problem = split_key(key)
        if problems is not None and problem not in problems:
            continue
        value = QUARANTINE.unpack(key, sealed, snapshot.get)
        value = None if value is None else selection.narrowed(QUARANTINE.name, key, value)
        for record in value or ():
            yield Quarantined(device, problem, record)


def lift(database: Path, chosen: Sequence[Quarantined]) -> int:
    """Lift quarantines in one transaction; returns how many were still there.

    Searches no longer count as having decided about the solvers, so that the next find runs them.
    """
    with Writer(database) as writer:

        def work(change: Change) -> int:
            return sum(_lift(change, one) for one in chosen)

        return writer.change(work)


def _lift(change: Change, one: Quarantined) -> int:
    key, stored = one.key, stored_key(one.key)
    old = QUARANTINE.unpack(key, change.get(QUARANTINE.name, stored), change.get) or ()
    left = tuple(record for record in old if record != one.record)
    if left:
        change.put(QUARANTINE.name, stored, QUARANTINE.pack(key, left, change))
    else:
        change.delete(QUARANTINE.name, stored)
    entry = FIND.unpack(key, change.get(FIND.name, stored), change.get)
    if entry is not None:
        change.put(
            FIND.name, stored, FIND.pack(key, reconsidered(entry, one.record.solver), change)
        )
    return len(old) - len(left)
