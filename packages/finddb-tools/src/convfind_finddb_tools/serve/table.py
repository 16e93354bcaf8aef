"""`Table`: what a page shows, as rows that become HTML, CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")

#: Rows of one page.
PAGE_ROWS = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """A value; how it is shown, where that differs; where it leads; and what to note beside it."""

    value: Any
    text: str = ""
    href: str = ""
    mark: str = ""

    @property
    def shown(self) -> str:
        """The text for people."""
        return self.text or ("-" if self.value is None else str(self.value))


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    """A column: its field, its heading, its cell for an item, and whether it holds numbers."""

    name: str
    label: str
    cell: Callable[[Item], Cell]
    is_number: bool = False


Row = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with a caption; ``total`` counts those of all pages."""

    caption: str
    columns: tuple[Column[Any], ...]
    rows: Sequence[Row] = field(default_factory=tuple)
    total: int = 0
    page: int = 1
    sort: str = ""
    descending: bool = False

    @classmethod
    def of(cls, caption: str, columns: tuple[Column[Item], ...], items: Iterable[Item]) -> Self:
        """Return a table with a row for each item."""
        rows = [{column.name: column.cell(item) for column in columns} for item in items]
        return cls(caption, columns, rows)

    @property
    def pages(self) -> int:
        """Number of pages."""
        return max(1, -(-self.total // PAGE_ROWS))

    def sorted_by(self, name: str, *, descending: bool) -> Table:
        """Return the table in the order of a column, if it has it; missing values last."""
        if name not in {column.name for column in self.columns}:
            return self
        known = [row for row in self.rows if row[name].value is not None]
        missing = [row for row in self.rows if row[name].value is None]
        known.sort(key=lambda row: row[name].value, reverse=descending)
        return replace(self, rows=(*known, *missing), sort=name, descending=descending)

    def at_page(self, page: int) -> Table:
        """Return the rows of one page."""
        counted = replace(self, total=len(self.rows))
        page = min(max(page, 1), counted.pages)
        shown = self.rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
        return replace(counted, rows=shown, page=page)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain values, for JSON."""
        return [
            {column.name: row[column.name].value for column in self.columns} for row in self.rows
        ]

    def csv(self) -> str:
        """Return the rows as CSV, the names of the fields first."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [column.name for column in self.columns])
        writer.writeheader()
        writer.writerows(self.records())
        return text.getvalue()
