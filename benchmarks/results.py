"""Shows recorded results as tables, and keeps the index of RESULTS.md.

``python benchmarks/results.py`` lists what was measured, with a part of a name it prints those
tables as Markdown, and ``--write`` brings RESULTS.md up to date. A table is a JSON file in
``results/DEVICE/DATE-NAME.json``: title, day, how it was measured, columns and rows of text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

FOLDER = Path(__file__).parent / "results"
PAGE = Path(__file__).parent / "RESULTS.md"

_INDEX = re.compile(r"(?<=<!-- index -->\n).*?(?=<!-- end of index -->)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DEVICES = {
    "nvidia-h200": "NVIDIA H200",
    "nvidia-h100": "NVIDIA H100",
    "amd-compiler": "AMD GPUs, compiled without one",
    "cpu-zen5": "two cores of an AMD EPYC, Zen 5",
    "cpu-zen4": "two cores of an AMD EPYC, Zen 4",
    "cpu-zen3": "two cores of an AMD EPYC, Zen 3",
    "cpu-xeon": "two cores of an Intel Xeon, AVX-512",
    "host": "the host's side: calls, databases, tuning, models",
}
#: Columns that name what was measured, before those with measurements.
_NAMES = ("network", "model", "what", "batch", "precision", "time")
#: Columns that say how many times as fast as a peer: ``ratio, forward`` or ``speed-up over ...``.
_COMPARISON = re.compile(r"(?:ratio|speed-up)(?: (?:over|to) the best)?,? ?(.*)")


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How many times as fast as a peer each row of a table is; ``detail`` says in which form."""

    detail: str
    ratios: tuple[tuple[str, float], ...]

    @property
    def mean(self) -> float:
        """The geometric mean over the rows."""
        return math.exp(math.fsum(math.log(ratio) for _, ratio in self.ratios) / len(self.ratios))

    @property
    def least(self) -> float:
        """The least of the rows."""
        return min(ratio for _, ratio in self.ratios)


@dataclass(frozen=True, slots=True)
class Table:
    """A recorded table; cells are text, as they were written down."""

    path: Path
    title: str
    measured: str
    how: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read a table from its file. Raises `ValueError` where a row has too many cells."""
        data = json.loads(path.read_text(encoding="utf-8"))
        columns = tuple(data["columns"])
        rows = tuple(map(tuple, data["rows"]))
        if any(len(row) > len(columns) for row in rows):
            msg = f"{path}: a row has more cells than there are columns"
            raise ValueError(msg)
        return cls(path, data["title"], data["measured"], data["how"], columns, rows)

    @property
    def device(self) -> str:
        """The folder that the file is in."""
        return self.path.parent.name

    @property
    def name(self) -> str:
        """The file's name without its ending, which begins with the date."""
        return self.path.stem

    @property
    def is_of_networks(self) -> bool:
        """Whether its rows are whole networks, rather than layers or parts."""
        return self.columns[0] in ("network", "model")

    def speed_ups(self) -> list[SpeedUp]:
        """Return the comparisons with a peer; what was measured before a change is none."""
        found = []
        names = sum(1 for column in self.columns if column in _NAMES) or 1
        for position, column in enumerate(self.columns):
            match = _COMPARISON.fullmatch(column)
            if match is None or match[1] == "before":
                continue
            ratios = tuple(
                (self._name(row[:names]), float(number[0]))
                for row in self.rows
                if position < len(row) and (number := _NUMBER.match(row[position]))
            )
            if ratios:
                found.append(SpeedUp(match[1], ratios))
        return found

    def _name(self, cells: tuple[str, ...]) -> str:
        named = zip(self.columns, cells, strict=False)
        return ", ".join(f"batch {cell}" if column == "batch" else cell for column, cell in named)

    def markdown(self) -> str:
        """Return title, command and rows as Markdown."""
        ruler = ("---",) * len(self.columns)
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, ruler, *self.rows)]
        return "\n".join([f"### {self.title} ({self.measured})", "", self.how, "", *lines, ""])


def tables() -> Iterator[Table]:
    """Yield all tables, by device and date."""
    for device in _DEVICES:
        for path in sorted((FOLDER / device).glob("*.json")):
            yield Table.read(path)


def index() -> str:
    """Return the index of RESULTS.md."""
    lines: list[str] = []
    device = ""
    for table in tables():
        if table.device != device:
            device = table.device
            lines += ["", f"### {_DEVICES[device]}", ""]
            lines += ["| measured | table | rows | ratio over the peer: geometric mean (least) |"]
            lines += ["|---|---|---|---|"]
        link = f"[{table.title}](results/{table.device}/{table.path.name})"
        ratios = ", ".join(f"{one.mean:.2f} ({one.least:.2f})" for one in table.speed_ups())
        lines.append(f"| {table.measured} | {link} | {len(table.rows)} | {ratios} |")
    return "\n".join([*lines, "", ""])


def updated(page: str) -> str:
    """Return the page with today's index."""
    return _INDEX.sub(lambda _: index(), page)


@click.command(help=__doc__)
@click.argument("part", required=False)
@click.option("--write", is_flag=True, help="Bring the index of RESULTS.md up to date.")
def main(part: str | None, write: bool) -> None:
    """Run the program."""
    if write:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    for table in tables():
        if part is None:
            click.echo(f"{table.device}/{table.name}")
        elif part in f"{table.device}/{table.name}":
            click.echo(table.markdown())


if __name__ == "__main__":
    main()
