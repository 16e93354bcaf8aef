"""The page of one problem on one device: every record, with its config and noise."""

from __future__ import annotations

from collections.abc import Sequence

from convfind.text import format_error, format_ms
from convfind_finddb_tools.entry import Entry, Measured
from convfind_finddb_tools.quarantine import Quarantined
from convfind_finddb_tools.serve.cells import (
    date,
    problem_address,
    solver,
    spread_of,
    time_of,
    workspace_of,
)
from convfind_finddb_tools.serve.library import Contents, Library
from convfind_finddb_tools.serve.table import Cell, Column, Table
from convfind_finddb_tools.serve.view import Bar, NotFound, Query, View, database_of

_RESULT: tuple[Column[Measured], ...] = (
    Column("solver", "Solver", solver),
    Column("algorithm", "Algorithm", lambda one: Cell(one.algorithm)),
    Column("time_ms", "ms", time_of, True),
    Column("spread", "Spread", spread_of, True),
    Column("samples", "Samples", lambda one: Cell(one.record and one.record.samples), True),
    Column("workspace", "Workspace", workspace_of, True),
    Column("error", "Error", lambda one: _error(one), True),
)
_ORIGIN: tuple[Column[Measured], ...] = (
    Column("weights", "Weights", lambda one: Cell(_weights(one))),
    Column("package", "Package", lambda one: Cell(one.record and one.record.package)),
    Column("driver", "Driver", lambda one: Cell(one.record and one.record.driver)),
    Column("created", "Measured", lambda one: date(one.record.created if one.record else 0)),
)
_FAILED: tuple[Column[Quarantined], ...] = (
    Column("solver", "Solver", lambda one: Cell(one.record.solver)),
    Column("reason", "Reason", lambda one: Cell(_reason(one))),
    Column("since", "Since", lambda one: date(one.record.created)),
)


def problem(library: Library, query: Query) -> View:
    """One problem on one device: every record, its config and noise, and who is in quarantine."""
    name, contents = database_of(library, query)
    device, key = query.get("device", ""), query.get("problem", "")
    of_problem = [entry for entry in contents.entries if entry.problem == key]
    found = next((entry for entry in of_problem if entry.device == device), None)
    if found is None:
        raise NotFound(f"{name} has no problem {key!r} on {device!r}")
    ordered = sorted(found.results, key=lambda one: one.time_ms)

    def config(one: Measured) -> Cell:
        return Cell(_config(contents, found, one))

    columns = (*_RESULT, Column("config", "Config", config), *_ORIGIN)
    quarantine = (one for one in contents.quarantine if (one.device, one.problem) == (device, key))
    elsewhere = [one for one in of_problem if one.device != device]
    more = (
        Table.of("In quarantine", _FAILED, quarantine),
        Table.of("The same problem elsewhere", _elsewhere(name), elsewhere),
    )
    return View(
        key,
        Table.of("Records, fastest first", columns, ordered),
        lead=(
            f"On {device}, in {name}.",
            f"{len(found.considered)} solvers were considered, {len(ordered)} have records.",
        ),
        more=tuple(table for table in more if table.rows),
        bars=_bars(ordered),
    )


def _elsewhere(database: str) -> tuple[Column[Entry], ...]:
    return (
        Column("device", "Device", lambda e: Cell(e.device, href=problem_address(database, e))),
        Column("fastest", "Fastest", lambda entry: solver(entry.winner)),
        Column("time_ms", "ms", lambda entry: time_of(entry.winner), True),
    )


def _bars(ordered: Sequence[Measured]) -> tuple[Bar, ...]:
    longest = max((one.time_ms for one in ordered), default=0) or 1
    return tuple(
        Bar(one.solver, f"{format_ms(one.time_ms)} ms", one.time_ms / longest, one.is_noisy)
        for one in ordered
    )


def _config(contents: Contents, entry: Entry, one: Measured) -> str | None:
    """Return the config that was measured, or the one that tuning found, as text."""
    if one.record is not None and one.record.config:
        return " ".join(f"{name}={value}" for name, value in one.record.config.items())
    return contents.configs.get((entry.device, entry.problem, one.solver))


def _error(one: Measured) -> Cell:
    return Cell(one.record.error, format_error(one.record.error)) if one.record else Cell(None)


def _reason(one: Quarantined) -> str:
    return f"{one.record.reason} {one.record.detail}".strip()


def _weights(one: Measured) -> str:
    return "packed before" if one.record and one.record.constant_weights else "as given"
