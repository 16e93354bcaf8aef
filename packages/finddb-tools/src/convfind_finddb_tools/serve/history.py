"""The page of a database's history: from which days its records are, and which runs tuned it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from convfind.finddb.evidence import is_noisy
from convfind.finddb.record import FindRecord
from convfind_finddb_tools.entry import Entry
from convfind_finddb_tools.serve.cells import date, day_of, number
from convfind_finddb_tools.serve.library import Contents, Library
from convfind_finddb_tools.serve.table import Cell, Column, Table
from convfind_finddb_tools.serve.view import Choice, Query, View, database_of
from convfind_finddb_tools.tune.state import State


@dataclass(slots=True)
class _Day:
    """The standing of a day's records by one package with one driver of a device."""

    day: str
    device: str
    package: str
    driver: str
    records: list[FindRecord] = field(default_factory=list)
    problems: set[str] = field(default_factory=set)
    fastest: int = 0


_COLUMNS: tuple[Column[_Day], ...] = (
    Column("day", "Day", lambda one: Cell(one.day or None)),
    Column("device", "Device", lambda one: Cell(one.device)),
    Column("package", "Package", lambda one: Cell(one.package or None)),
    Column("driver", "Driver", lambda one: Cell(one.driver or None)),
    Column("problems", "Problems", lambda one: number(len(one.problems)), True),
    Column("records", "Records", lambda one: number(len(one.records)), True),
    Column("fastest", "Fastest", lambda one: number(one.fastest), True),
    Column("noisy", "Noisy", lambda one: number(_noisy(one.records)), True),
)
_RUNS: tuple[Column[State], ...] = (
    Column("began", "Began", lambda one: date(int(one.began))),
    Column("device", "Device", lambda one: Cell(one.device)),
    Column("strategy", "Strategy", lambda one: Cell(one.strategy)),
    Column("problems", "Problems", lambda one: number(one.total), True),
    Column("finished", "Finished", lambda one: number(one.finished), True),
    Column("failed", "Failed", lambda one: number(one.failed), True),
    Column("died", "Deaths", lambda one: number(one.died), True),
    Column("workers", "Workers", lambda one: number(len(one.workers)), True),
    Column("latest", "Last heard of", lambda one: date(int(one.latest))),
    Column("stopped", "Ended", lambda one: Cell(one.stopped or None)),
)


def history(library: Library, query: Query) -> View:
    """From which days the records of a database are, and which runs of tuning it had."""
    name, contents = database_of(library, query)
    chosen = query.get("device", "")
    days = sorted(_days(contents, chosen), key=lambda one: one.day, reverse=True)
    runs = [run for run in library.runs(name) if chosen in ("", run.device)]
    form = (
        Choice("db", "Database", name, library.names),
        Choice("device", "Device", chosen, ("", *contents.devices)),
    )
    lead = (
        "The days on which the records that stand were measured. A record that gave way to a "
        "better one is not kept.",
    )
    more = Table.of("Runs of tuning, the latest first", _RUNS, reversed(runs))
    table = Table.of(f"Records of {name} by day, the latest first", _COLUMNS, days)
    return View("History", table, lead, form, (more,) if runs else ())


def _days(contents: Contents, device: str) -> Iterator[_Day]:
    days: dict[tuple[str, ...], _Day] = {}
    for entry in contents.entries:
        if device not in ("", entry.device):
            continue
        for record in _records(entry):
            key = (day_of(record.created), entry.device, record.package, record.driver)
            found = days.setdefault(key, _Day(*key))
            found.records.append(record)
            found.problems.add(entry.problem)
            found.fastest += entry.winner is not None and entry.winner.record is record
    yield from days.values()


def _records(entry: Entry) -> Iterator[FindRecord]:
    return (one.record for one in entry.results if one.record is not None)


def _noisy(records: Sequence[FindRecord]) -> int:
    return sum(is_noisy(one.time_ms, one.spread_ms) for one in records)
