"""The page of networks and logs whose problems were tuned into a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convfind_finddb_tools.serve.cells import milliseconds, number
from convfind_finddb_tools.serve.library import Contents, Library
from convfind_finddb_tools.serve.table import Cell, Column, Table
from convfind_finddb_tools.serve.view import Choice, Query, View, database_of, link
from convfind_finddb_tools.tune.workload import WorkloadLine


@dataclass(frozen=True, slots=True)
class _Network:
    """A network on a device: its problems, and the times of those that are recorded."""

    name: str
    device: str
    address: str
    lines: Sequence[WorkloadLine]
    times: Sequence[float]


_COLUMNS: tuple[Column[_Network], ...] = (
    Column("network", "Network", lambda one: Cell(one.name)),
    Column("device", "Device", lambda one: Cell(one.device, href=one.address)),
    Column("problems", "Problems", lambda one: number(len(one.lines)), True),
    Column("recorded", "Recorded", lambda one: number(len(one.times)), True),
    Column("occurrences", "Occurrences", lambda one: number(sum(x.count for x in one.lines)), True),
    Column("time_ms", "ms in all", lambda one: _time(one.times), True),
)


def networks(library: Library, query: Query) -> View:
    """The networks and logs whose problems were tuned into a database, by device."""
    name, contents = database_of(library, query)
    lead = ("The time is the sum over what is recorded, each problem as often as it occurs.",)
    form = (Choice("db", "Database", name, library.names),)
    table = Table.of(f"Networks of {name}", _COLUMNS, _found(name, contents))
    return View("Networks", table, lead, form)


def _found(database: str, contents: Contents) -> list[_Network]:
    best = {(one.device, one.problem): one.winner for one in contents.entries if one.winner}
    found = []
    for source in dict.fromkeys(line.source for line in contents.workload):
        lines = [line for line in contents.workload if line.source == source]
        for device in contents.devices:
            known = [(line, best.get((device, line.problem))) for line in lines]
            times = [line.count * won.time_ms for line, won in known if won]
            address = link("/problems", db=database, device=device)
            found.append(_Network(source, device, address, lines, times))
    return found


def _time(times: Sequence[float]) -> Cell:
    return milliseconds(sum(times)) if times else Cell(None)
