"""The table of a find's solutions, for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from convfind.text import (
    format_bytes,
    format_error,
    format_spread,
    format_time,
    gflops,
    new_table,
)

if TYPE_CHECKING:
    from rich.table import Table

    from convfind.find.result import FindResult

_COLUMNS = (
    *("solver", "algorithm", "ms", "spread", "GFLOP/s", "time is", "workspace", "error"),
    "note",
)
_NUMBERS = ("ms", "GFLOP/s", "workspace", "error")


def rich_table(result: FindResult) -> Table:
    """Return a line for each solution, for rich's consoles."""
    table = new_table(*_COLUMNS, right=_NUMBERS)
    for row in _rows(result):
        table.add_row(*row)
    return table


def html_table(result: FindResult) -> str:
    """Return problem, device and origin, and a row for each solution, as HTML."""
    lines = (f"problem {result.problem}", f"device {result.device}", result.summary)
    head = "".join(f"<th>{escape(column)}</th>" for column in _COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(result)
    )
    return (
        "".join(f"<div>{escape(line)}</div>" for line in lines)
        + f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _rows(result: FindResult) -> Iterator[tuple[str, ...]]:
    flops = result.flops
    for solution in result.solutions:
        notes = {"over the workspace limit": solution.over_limit, "stale": solution.stale}
        estimate = solution.estimate_ms
        yield (
            *(solution.solver, solution.algorithm.value, format_time(solution)),
            format_spread(solution.time_ms, solution.spread, solution.samples),
            "-" if estimate is None or flops is None else f"{gflops(flops, estimate):.1f}",
            solution.time_origin.value,
            format_bytes(solution.workspace),
            format_error(solution.error),
            ", ".join(note for note, holds in notes.items() if holds),
        )
