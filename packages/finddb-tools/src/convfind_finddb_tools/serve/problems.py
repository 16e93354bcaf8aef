"""The page of a database's problems, filtered."""

from __future__ import annotations

from collections.abc import Mapping

from convfind_finddb_tools.entry import Entry
from convfind_finddb_tools.serve.cells import (
    number,
    problem_address,
    solver,
    spread_of,
    time_of,
    workspace_of,
)
from convfind_finddb_tools.serve.library import Contents, Library
from convfind_finddb_tools.serve.table import Cell, Column, Table
from convfind_finddb_tools.serve.view import Choice, Query, View, database_of

_COLUMNS: tuple[Column[Entry], ...] = (
    Column("device", "Device", lambda entry: Cell(entry.device)),
    Column("fastest", "Fastest", lambda entry: solver(entry.winner)),
    Column("time_ms", "ms", lambda entry: time_of(entry.winner), True),
    Column("spread", "Spread", lambda entry: spread_of(entry.winner), True),
    Column("workspace", "Workspace", lambda entry: workspace_of(entry.winner), True),
    Column("records", "Records", lambda entry: number(len(entry.results)), True),
)
_DIRECTIONS = ("", "fwd", "bwd-data", "bwd-weights")


def problems(library: Library, query: Query) -> View:
    """The problems of a database, filtered."""
    name, contents = database_of(library, query)
    chosen = {field: query.get(field, "") for field in ("device", "direction", "dtype", "solver")}
    text = query.get("text", "")
    entries = [entry for entry in contents.entries if _takes(entry, chosen, text)]

    def linked(entry: Entry) -> Cell:
        return Cell(entry.problem, href=problem_address(name, entry))

    form = (
        Choice("db", "Database", name, library.names),
        Choice("device", "Device", chosen["device"], ("", *contents.devices)),
        Choice("direction", "Direction", chosen["direction"], _DIRECTIONS),
        Choice("dtype", "Type", chosen["dtype"], ("", *_types(contents))),
        Choice("solver", "Solver", chosen["solver"]),
        Choice("text", "Part of the problem", text),
    )
    lead = (f"{len(entries):,} of {len(contents.entries):,} problems.",)
    columns = (Column("problem", "Problem", linked), *_COLUMNS)
    return View("Problems", Table.of(f"Problems of {name}", columns, entries), lead, form)


def _types(contents: Contents) -> tuple[str, ...]:
    return tuple(sorted({entry.traits.dtype for entry in contents.entries}))


def _takes(entry: Entry, chosen: Mapping[str, str], text: str) -> bool:
    traits = entry.traits
    return (
        chosen["device"] in ("", entry.device)
        and chosen["direction"] in ("", traits.direction)
        and chosen["dtype"] in ("", traits.dtype)
        and text in entry.problem
        and any(chosen["solver"] in one.solver for one in entry.results)
    )
