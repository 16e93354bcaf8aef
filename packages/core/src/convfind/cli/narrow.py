"""Tables and sentences for a terminal that is narrower than they are: several lines for each."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table

_GAP = 2
_INDENT = 4
_LEAST = 20  # characters in which prose is still read
_LABELLED = re.compile(r"(\s*(?:\S+ {2,})?)(.*)")  # a line's sentence, and what precedes it


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    cells: tuple[str, ...]
    is_right: bool

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.heading, *self.cells)))

    def padded(self, text: str) -> str:
        room = " " * (self.width - cell_len(text))
        return room + text if self.is_right else text + room


def narrow(table: Table, width: int) -> Iterator[str]:
    """Yield the lines of a table whose rows go on below where they are wider than ``width``."""
    columns = [
        _Column(str(one.header), tuple(map(str, one.cells)), one.justify == "right")
        for one in table.columns
    ]
    groups = _groups(columns, width)
    for group in groups:
        yield from _lines(group, [column.heading for column in group], group is groups[0], width)
    yield "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * width
    for row in range(table.row_count):
        for group in groups:
            cells = [column.cells[row] for column in group]
            yield from _lines(group, cells, group is groups[0], width)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, broken between words where they are wider than ``width``.

    A line goes on below its sentence, right of its label. A word that is wider stays whole, so that
    a problem's key can be copied.
    """
    for line in text.split("\n"):
        if cell_len(line) <= width:
            yield line
            continue
        labelled = _LABELLED.fullmatch(line)
        assert labelled is not None  # it matches every line
        label, sentence = labelled.groups()
        room = max(width - len(label), _LEAST)
        for part in textwrap.wrap(sentence, room, break_long_words=False, break_on_hyphens=False):
            yield label + part
            label = " " * len(label)


def _groups(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """Divide columns among lines, each as full as it can be."""
    groups: list[list[_Column]] = [[]]
    used = 0
    for column in columns:
        if groups[-1] and used + column.width > width:
            groups.append([])
            used = _INDENT
        groups[-1].append(column)
        used += column.width + _GAP
    return groups


def _lines(
    group: Sequence[_Column], cells: Sequence[str], is_first: bool, width: int
) -> Iterator[str]:
    indent = "" if is_first else " " * _INDENT
    if len(group) == 1 and len(indent) + group[0].width > width:  # prose
        room = max(width - len(indent), _LEAST)
        yield from (indent + line for line in textwrap.wrap(cells[0], room, break_on_hyphens=False))
        return
    padded = (column.padded(cell) for column, cell in zip(group, cells, strict=True))
    line = (indent + (" " * _GAP).join(padded)).rstrip()
    if line or is_first:
        yield line
