"""The pages: what each shows of the library for a query."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any
from urllib.parse import urlencode

from convfind.finddb.evidence import is_noisy
from convfind.text import format_bytes, format_error, format_ms
from convfind_finddb_tools.entry import Entry, Measured
from convfind_finddb_tools.serve.library import Contents, Library
from convfind_finddb_tools.serve.table import Cell, Column, Row, Table

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A field of the form above a table: text, or one of some values."""

    name: str
    label: str
    value: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot, its length as a share of the longest."""

    label: str
    text: str
    share: float
    is_noisy: bool


@dataclass(frozen=True, slots=True)
class View:
    """A page: heading, sentences, a form, a table that is the page's, others, and a plot."""

    title: str
    table: Table
    lead: tuple[str, ...] = ()
    form: tuple[Choice, ...] = ()
    more: tuple[Table, ...] = ()
    bars: tuple[Bar, ...] = ()


class NotFound(Exception):
    """A query for something that no database has; the message says what."""


def link(path: str, **query: str) -> str:
    """Return the address of a page."""
    return f"{path}?{urlencode(query)}"


def devices(library: Library, _: Query) -> View:
    """All devices of all databases."""
    rows: list[Row] = []
    for name in library.names:
        contents = library.contents(name)
        for device in contents.devices:
            entries = [entry for entry in contents.entries if entry.device == device]
            results = [result for entry in entries for result in entry.results]
            records = [result.record for result in results if result.record]
            winners = Counter(entry.winner.algorithm for entry in entries if entry.winner)
            rows.append(
                {
                    "database": Cell(name),
                    "device": Cell(device, href=link("/problems", db=name, device=device)),
                    "problems": _number(len(entries)),
                    "results": _number(len(results)),
                    "noisy": _number(sum(result.is_noisy for result in results)),
                    "quarantined": _number(
                        sum(one.device == device for one in contents.quarantine)
                    ),
                    "wins": Cell(", ".join(f"{word} {n}" for word, n in winners.most_common(3))),
                    "newest": _date(max((one.created for one in records), default=0)),
                }
            )
    columns = (
        Column("database", "Database"),
        Column("device", "Device"),
        Column("problems", "Problems", True),
        Column("results", "Results", True),
        Column("noisy", "Noisy", True),
        Column("quarantined", "In quarantine", True),
        Column("wins", "Fastest, by algorithm"),
        Column("newest", "Newest"),
    )
    lead = ("Each device with what was measured on it.",)
    return View("Devices", Table("Devices", columns, rows), lead)


def problems(library: Library, query: Query) -> View:
    """The problems of a database, filtered."""
    name, contents = _database(library, query)
    chosen = {field: query.get(field, "") for field in ("device", "direction", "dtype", "solver")}
    text = query.get("text", "")
    entries = [entry for entry in contents.entries if _takes(entry, chosen, text)]
    rows = [_problem_row(name, entry) for entry in entries]
    columns = (
        Column("problem", "Problem"),
        Column("device", "Device"),
        Column("fastest", "Fastest"),
        Column("time_ms", "ms", True),
        Column("spread", "Spread", True),
        Column("workspace", "Workspace", True),
        Column("results", "Results", True),
    )
    form = (
        Choice("db", "Database", name, library.names),
        Choice("device", "Device", chosen["device"], ("", *contents.devices)),
        Choice(
            "direction", "Direction", chosen["direction"], ("", "fwd", "bwd-data", "bwd-weights")
        ),
        Choice("dtype", "Type", chosen["dtype"], ("", *_kinds(contents, "dtype"))),
        Choice("solver", "Solver", chosen["solver"]),
        Choice("text", "Part of the problem", text),
    )
    lead = (f"{len(entries):,} of {len(contents.entries):,} problems.",)
    return View("Problems", Table(f"Problems of {name}", columns, rows), lead, form)


def problem(library: Library, query: Query) -> View:
    """One problem on one device: every solution, its config and noise, and who is in quarantine."""
    name, contents = _database(library, query)
    device, key = query.get("device", ""), query.get("problem", "")
    of_problem = [entry for entry in contents.entries if entry.problem == key]
    found = next((entry for entry in of_problem if entry.device == device), None)
    if found is None:
        raise NotFound(f"{name} has no problem {key!r} on {device!r}")
    ordered = sorted(found.results, key=lambda one: one.time_ms)
    rows = [_result_row(contents, found, one) for one in ordered]
    columns = (
        Column("solver", "Solver"),
        Column("algorithm", "Algorithm"),
        Column("time_ms", "ms", True),
        Column("spread", "Spread", True),
        Column("samples", "Samples", True),
        Column("workspace", "Workspace", True),
        Column("error", "Error", True),
        Column("config", "Config"),
        Column("weights", "Weights"),
        Column("package", "Package"),
        Column("driver", "Driver"),
        Column("created", "Measured"),
    )
    failed = Table(
        "In quarantine",
        (Column("solver", "Solver"), Column("reason", "Reason"), Column("since", "Since")),
        [
            {
                "solver": Cell(one.record.solver),
                "reason": Cell(f"{one.record.reason} {one.record.detail}".strip()),
                "since": _date(one.record.created),
            }
            for one in contents.quarantine
            if (one.device, one.problem) == (device, key)
        ],
    )
    elsewhere = Table(
        "The same problem elsewhere",
        (Column("device", "Device"), Column("fastest", "Fastest"), Column("time_ms", "ms", True)),
        [_problem_row(name, one, "device") for one in of_problem if one.device != device],
    )
    lead = (
        f"On {device}, in {name}.",
        f"{len(found.considered)} solvers were considered, {len(found.results)} have results.",
    )
    longest = max((one.time_ms for one in ordered), default=0) or 1
    bars = tuple(
        Bar(one.solver, f"{format_ms(one.time_ms)} ms", one.time_ms / longest, one.is_noisy)
        for one in ordered
    )
    table = Table("Solutions, fastest first", columns, rows)
    more = tuple(one for one in (failed, elsewhere) if one.rows)
    return View(key, table, lead, more=more, bars=bars)


def networks(library: Library, query: Query) -> View:
    """The networks and logs whose problems were tuned into a database, by device."""
    name, contents = _database(library, query)
    rows: list[Row] = []
    best = {(one.device, one.problem): one.winner for one in contents.entries if one.winner}
    for source in dict.fromkeys(line.source for line in contents.workload):
        lines = [line for line in contents.workload if line.source == source]
        for device in contents.devices:
            known = [(line, best.get((device, line.problem))) for line in lines]
            times = [line.count * won.time_ms for line, won in known if won]
            rows.append(
                {
                    "network": Cell(source),
                    "device": Cell(device, href=link("/problems", db=name, device=device)),
                    "problems": _number(len(lines)),
                    "recorded": _number(len(times)),
                    "occurrences": _number(sum(line.count for line in lines)),
                    "time_ms": _time(sum(times)) if times else Cell(None),
                }
            )
    columns = (
        Column("network", "Network"),
        Column("device", "Device"),
        Column("problems", "Problems", True),
        Column("recorded", "Recorded", True),
        Column("occurrences", "Occurrences", True),
        Column("time_ms", "ms in all", True),
    )
    lead = ("The time is the sum over what is recorded, each problem as often as it occurs.",)
    form = (Choice("db", "Database", name, library.names),)
    return View("Networks", Table(f"Networks of {name}", columns, rows), lead, form)


def compare(library: Library, query: Query) -> View:
    """Two databases or devices, problem by problem."""
    places = tuple(
        f"{name}: {device}" for name in library.names for device in library.contents(name).devices
    )
    if not places:
        raise NotFound("there is nothing to compare: no database has a record")
    chosen = [query.get("first") or places[0], query.get("second") or places[-1]]
    sides = [_winners(library, places, place) for place in chosen]
    rows: list[Row] = []
    ratios: list[float] = []
    for key in sides[0].keys() & sides[1].keys():
        (name, a), (_, b) = sides[0][key], sides[1][key]
        before, after = a.winner, b.winner
        if before is None or after is None:
            continue
        ratio = after.time_ms / before.time_ms
        noisy = before.is_noisy or after.is_noisy
        if not noisy:
            ratios.append(ratio)
        rows.append(
            {
                "problem": Cell(key, href=_address(name, a)),
                "first": Cell(before.solver),
                "first_ms": _time(before.time_ms, before),
                "second": Cell(after.solver),
                "second_ms": _time(after.time_ms, after),
                "ratio": Cell(ratio, f"{ratio:.2f}", mark="noisy" if noisy else ""),
            }
        )
    rows.sort(key=lambda row: (row["ratio"].value, row["problem"].value))
    columns = (
        Column("problem", "Problem"),
        Column("first", "First"),
        Column("first_ms", "First, ms", True),
        Column("second", "Second"),
        Column("second_ms", "Second, ms", True),
        Column("ratio", "Second / first", True),
    )
    lead = [f"{len(rows):,} problems are in both."]
    if ratios:
        lead.append(
            f"The second takes {geometric_mean(ratios):.3f} times as long as the first: the "
            f"geometric mean over {len(ratios):,} problems without noisy times."
        )
    form = tuple(
        Choice(side, side.capitalize(), value, places)
        for side, value in zip(("first", "second"), chosen, strict=True)
    )
    return View("Compare", Table("Fastest solutions", columns, rows), tuple(lead), form)


#: The pages by path, in the order of the navigation; the page of one problem is reached by links.
PAGES: dict[str, Callable[[Library, Query], View]] = {
    "/": devices,
    "/problems": problems,
    "/networks": networks,
    "/compare": compare,
    "/problem": problem,
}


def _database(library: Library, query: Query) -> tuple[str, Contents]:
    name = query.get("db") or library.names[0]
    if name not in library.names:
        raise NotFound(f"there is no database {name!r} here")
    return name, library.contents(name)


def _winners(library: Library, places: Iterable[str], place: str) -> dict[str, tuple[str, Entry]]:
    if place not in places:
        raise NotFound(f"there is no {place!r} here")
    name, _, device = place.partition(": ")
    entries = library.contents(name).entries
    return {entry.problem: (name, entry) for entry in entries if entry.device == device}


def _kinds(contents: Contents, trait: str) -> tuple[str, ...]:
    return tuple(sorted({getattr(entry.traits, trait) for entry in contents.entries}))


def _takes(entry: Entry, chosen: Mapping[str, str], text: str) -> bool:
    traits = entry.traits
    return (
        chosen["device"] in ("", entry.device)
        and chosen["direction"] in ("", traits.direction)
        and chosen["dtype"] in ("", traits.dtype)
        and text in entry.problem
        and any(chosen["solver"] in one.solver for one in entry.results)
    )


def _address(name: str, entry: Entry) -> str:
    return link("/problem", db=name, device=entry.device, problem=entry.problem)


def _problem_row(name: str, entry: Entry, linked: str = "problem") -> Row:
    best = entry.winner
    address = _address(name, entry)
    return {
        "problem": Cell(entry.problem, href=address if linked == "problem" else ""),
        "device": Cell(entry.device, href=address if linked == "device" else ""),
        "fastest": Cell(best.solver if best else None),
        "time_ms": _time(best.time_ms, best) if best else Cell(None),
        "spread": _spread(best) if best else Cell(None),
        "workspace": Cell(best.workspace, format_bytes(best.workspace)) if best else Cell(None),
        "results": _number(len(entry.results)),
    }


def _result_row(contents: Contents, entry: Entry, one: Measured) -> Row:
    record = one.record
    config = ""
    if record is not None and record.config:
        config = " ".join(f"{name}={value}" for name, value in record.config.items())
    tuned = contents.configs.get((entry.device, entry.problem, one.solver), "")
    return {
        "solver": Cell(one.solver),
        "algorithm": Cell(one.algorithm),
        "time_ms": _time(one.time_ms, one),
        "spread": _spread(one),
        "samples": Cell(record.samples if record else None),
        "workspace": Cell(one.workspace, format_bytes(one.workspace)),
        "error": Cell(record.error, format_error(record.error)) if record else Cell(None),
        "config": Cell(config or tuned or None),
        "weights": Cell("packed before" if record and record.constant_weights else "as given"),
        "package": Cell(record.package if record else None),
        "driver": Cell(record.driver if record else None),
        "created": _date(record.created if record else 0),
    }


def _number(value: int) -> Cell:
    return Cell(value, f"{value:,}")


def _time(ms: float, one: Measured | None = None) -> Cell:
    noisy = one is not None and one.is_noisy
    return Cell(ms, format_ms(ms), mark="noisy" if noisy else "")


def _spread(one: Measured) -> Cell:
    if one.record is None or one.record.samples < 3 or not one.time_ms:
        return Cell(None)
    share = one.record.spread_ms / one.time_ms
    noisy = is_noisy(one.time_ms, one.record.spread_ms)
    return Cell(round(share, 4), f"{share:.0%}", mark="noisy" if noisy else "")


def _date(seconds: int) -> Cell:
    if not seconds:
        return Cell(None)
    text: Any = time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
    return Cell(text)
