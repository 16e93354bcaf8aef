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

    def ratios(self) -> str:
        """Return geometric mean and least of each column of ratios over a peer, or nothing."""
        said = []
        for position, column in enumerate(self.columns):
            if not column.startswith("ratio"):
                continue
            cells = [row[position] for row in self.rows if position < len(row)]
            values = [float(found[0]) for cell in cells if (found := _NUMBER.match(cell))]
            if values:
                mean = math.exp(math.fsum(map(math.log, values)) / len(values))
                said.append(f"{mean:.2f} ({min(values):.2f})")
        return ", ".join(said)

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
        lines.append(f"| {table.measured} | {link} | {len(table.rows)} | {table.ratios()} |")
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
