"""The page that compares two databases or devices, problem by problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from convfind_finddb_tools.entry import Entry, Measured
from convfind_finddb_tools.serve.cells import NOISY, problem_address, solver, time_of
from convfind_finddb_tools.serve.library import Library
from convfind_finddb_tools.serve.table import Cell, Column, Table
from convfind_finddb_tools.serve.view import Choice, NotFound, Query, View


@dataclass(frozen=True, slots=True)
class _Pair:
    """The fastest records for one problem on both sides."""

    problem: str
    address: str
    first: Measured
    second: Measured

    @property
    def ratio(self) -> float:
        return self.second.time_ms / self.first.time_ms

    @property
    def is_noisy(self) -> bool:
        return self.first.is_noisy or self.second.is_noisy


_COLUMNS: tuple[Column[_Pair], ...] = (
    Column("problem", "Problem", lambda pair: Cell(pair.problem, href=pair.address)),
    Column("first", "First", lambda pair: solver(pair.first)),
    Column("first_ms", "First, ms", lambda pair: time_of(pair.first), True),
    Column("second", "Second", lambda pair: solver(pair.second)),
    Column("second_ms", "Second, ms", lambda pair: time_of(pair.second), True),
    Column("ratio", "Second / first", lambda pair: _ratio(pair), True),
)


def compare(library: Library, query: Query) -> View:
    """Two databases or devices, problem by problem."""
    places = tuple(
        f"{name}: {device}" for name in library.names for device in library.contents(name).devices
    )
    if not places:
        raise NotFound("there is nothing to compare: no database has a record")
    one = query.get("first") or places[0]
    chosen = [one, query.get("second") or _usual(one, places)]
    first, second = (_entries(library, places, place) for place in chosen)
    database = chosen[0].partition(": ")[0]
    pairs = [
        _Pair(key, problem_address(database, first[key]), before, after)
        for key in first.keys() & second.keys()
        if (before := first[key].winner) and (after := second[key].winner)
    ]
    pairs.sort(key=lambda pair: (pair.ratio, pair.problem))
    lead = [f"{len(pairs):,} problems are in both."]
    ratios = [pair.ratio for pair in pairs if not pair.is_noisy]
    if ratios:
        lead.append(
            f"The second takes {geometric_mean(ratios):.3f} times as long as the first: the "
            f"geometric mean over {len(ratios):,} problems without noisy times."
        )
    form = tuple(
        Choice(side, side.capitalize(), value, places)
        for side, value in zip(("first", "second"), chosen, strict=True)
    )
    return View("Compare", Table.of("Fastest records", _COLUMNS, pairs), tuple(lead), form)


def _usual(first: str, places: Sequence[str]) -> str:
    """Return what a place is compared with unless told: its device in another database."""
    device = first.partition(": ")[2]
    same = [one for one in places if one != first and one.partition(": ")[2] == device]
    return (same or places)[-1]


def _entries(library: Library, places: Iterable[str], place: str) -> dict[str, Entry]:
    if place not in places:
        raise NotFound(f"there is no {place!r} here")
    name, _, device = place.partition(": ")
    entries = library.contents(name).entries
    return {entry.problem: entry for entry in entries if entry.device == device}


def _ratio(pair: _Pair) -> Cell:
    return Cell(pair.ratio, f"{pair.ratio:.2f}", mark=NOISY if pair.is_noisy else "")
