"""Cells of measured values, as people read them."""

from __future__ import annotations

import time

from convfind.finddb.evidence import is_noisy
from convfind.text import format_bytes, format_ms
from convfind_finddb_tools.entry import Entry, Measured
from convfind_finddb_tools.serve.table import Cell
from convfind_finddb_tools.serve.view import link

NOISY = "noisy"
_NOTHING = Cell(None)


def number(value: int) -> Cell:
    """Return a count."""
    return Cell(value, f"{value:,}")


def date(seconds: int) -> Cell:
    """Return a time since 1970 as a date; nothing for 0."""
    if not seconds:
        return _NOTHING
    return Cell(time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)))


def day_of(seconds: int) -> str:
    """Return the day of a time since 1970; nothing for 0."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds)) if seconds else ""


def milliseconds(ms: float) -> Cell:
    """Return a time."""
    return Cell(ms, format_ms(ms))


def solver(one: Measured | None) -> Cell:
    """Return the solver of a record, if there is one."""
    return Cell(one.solver) if one else _NOTHING


def time_of(one: Measured | None) -> Cell:
    """Return the time of a record, if there is one, and whether it is noisy."""
    if one is None:
        return _NOTHING
    return Cell(one.time_ms, format_ms(one.time_ms), mark=NOISY if one.is_noisy else "")


def spread_of(one: Measured | None) -> Cell:
    """Return the spread of a record's samples as a share of its time."""
    if one is None or one.record is None or one.record.samples < 3 or not one.time_ms:
        return _NOTHING
    share = one.record.spread_ms / one.time_ms
    noisy = is_noisy(one.time_ms, one.record.spread_ms)
    return Cell(round(share, 4), f"{share:.0%}", mark=NOISY if noisy else "")


def workspace_of(one: Measured | None) -> Cell:
    """Return the workspace of a record in bytes."""
    return Cell(one.workspace, format_bytes(one.workspace)) if one else _NOTHING


def problem_address(database: str, entry: Entry) -> str:
    """Return where a problem on a device is shown."""
    return link("/problem", db=database, device=entry.device, problem=entry.problem)
