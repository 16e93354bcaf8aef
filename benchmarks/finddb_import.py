"""How fast MIOpen's find databases are imported: records a second, for each file and in all."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from convfind_finddb_tools.import_miopen import import_miopen


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--repeat", type=click.IntRange(min=1), default=3, help="The best counts.  [3]")
@click.option("--json", "as_json", is_flag=True)
def main(files: tuple[Path, ...], repeat: int, as_json: bool) -> None:
    """Import each of the FILES (*.fdb.txt, *.fdb.txt.bz2) into an empty database."""
    found = [(file.name, *min(_import(file) for _ in range(repeat))) for file in files]
    lines, seconds = sum(row[2] for row in found), sum(row[1] for row in found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    if as_json:
        files_json = [
            {"file": name, "s": taken, "lines": count, "refused": refused}
            for name, taken, count, refused in found
        ]
        print(json.dumps({"files": files_json, "lines_per_s": lines / seconds, "peak_mib": peak}))
        return
    table = Table("file", "lines", "refused", "s", "lines/s")
    for name, taken, count, refused in found:
        table.add_row(name, f"{count:,}", str(refused), f"{taken:.2f}", f"{count / taken:,.0f}")
    table.add_row("all", f"{lines:,}", "", f"{seconds:.2f}", f"{lines / seconds:,.0f}")
    Console(width=100).print(table, f"peak memory {peak} MiB")


def _import(file: Path) -> tuple[float, int, int]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        report = import_miopen(Path(folder), file)
        return time.perf_counter() - start, report.lines, len(report.refused)


if __name__ == "__main__":
    main()
