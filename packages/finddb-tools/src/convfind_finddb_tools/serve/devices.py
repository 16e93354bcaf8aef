"""The page of devices: what each database has of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from convfind_finddb_tools.entry import Entry
from convfind_finddb_tools.serve.cells import date, number
from convfind_finddb_tools.serve.library import Contents, Library
from convfind_finddb_tools.serve.table import Cell, Column, Table
from convfind_finddb_tools.serve.view import Query, View, link


@dataclass(frozen=True, slots=True)
class _Device:
    """A device in a database, with its problems."""

    database: str
    name: str
    entries: tuple[Entry, ...]
    quarantined: int

    @classmethod
    def of(cls, database: str, contents: Contents, name: str) -> _Device:
        entries = tuple(entry for entry in contents.entries if entry.device == name)
        quarantined = sum(one.device == name for one in contents.quarantine)
        return cls(database, name, entries, quarantined)

    @property
    def address(self) -> str:
        return link("/problems", db=self.database, device=self.name)

    @property
    def results(self) -> int:
        return sum(len(entry.results) for entry in self.entries)

    @property
    def noisy(self) -> int:
        return sum(result.is_noisy for entry in self.entries for result in entry.results)

    @property
    def wins(self) -> str:
        winners = Counter(entry.winner.algorithm for entry in self.entries if entry.winner)
        return ", ".join(f"{word} {count}" for word, count in winners.most_common(3))

    @property
    def newest(self) -> int:
        results = (result for entry in self.entries for result in entry.results)
        return max((one.record.created for one in results if one.record), default=0)


_COLUMNS: tuple[Column[_Device], ...] = (
    Column("database", "Database", lambda one: Cell(one.database)),
    Column("device", "Device", lambda one: Cell(one.name, href=one.address)),
    Column("problems", "Problems", lambda one: number(len(one.entries)), True),
    Column("records", "Records", lambda one: number(one.results), True),
    Column("noisy", "Noisy", lambda one: number(one.noisy), True),
    Column("quarantined", "In quarantine", lambda one: number(one.quarantined), True),
    Column("wins", "Fastest, by algorithm", lambda one: Cell(one.wins)),
    Column("newest", "Newest", lambda one: date(one.newest)),
)


def devices(library: Library, _: Query) -> View:
    """All devices of all databases."""
    found = [
        _Device.of(name, contents, device)
        for name in library.names
        for contents in (library.contents(name),)
        for device in contents.devices
    ]
    lead = ("Each device with what was measured on it.",)
    return View("Devices", Table.of("Devices", _COLUMNS, found), lead)
