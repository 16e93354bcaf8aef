"""The cost of checks: the share of a cold find that goes into references and comparisons.

    python benchmarks/verification.py benchmarks/layers/resnet50.txt -n 4 --device opencl:cpu

Every layer is found with an empty database and an empty cache of kernels. Counted are references
and checksums, whatever a candidate's first check does beside the run that every find makes, and all
later checks. Candidates run in this process.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

import convfind
from convfind.checking.conv_draw import ConvDraw
from convfind.checking.workbench import Candidate
from convfind.problem import ConvProblem
from convfind.problem.text import read_layer_file

#: The calls that are timed, and their names; a call within another of these counts there.
_PARTS = (
    (ConvDraw, "make_ready", "reference"),
    (ConvDraw, "make_ready_again", "checksum"),
    (Candidate, "verify", "first checks"),
    (Candidate, "confirm", "later checks"),
)


class Clock:
    """Seconds by part."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((name for _, _, name in _PARTS), 0.0)
        self._open: list[str] = []

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function, whose time counts."""

        def call(*args: Any, **options: Any) -> Any:
            if self._open:
                return work(*args, **options)
            self._open.append(name)
            start = time.perf_counter()
            try:
                return work(*args, **options)
            finally:
                self.seconds[name] += time.perf_counter() - start
                self._open.pop()

        return call

    def untimed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function, whose time does not count within the part that calls it."""

        def call(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return work(*args, **options)
            finally:
                if self._open and self._open[-1] == "first checks":
                    self.seconds[self._open[-1]] -= time.perf_counter() - start

        return call

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time all parts in a block."""
        with ExitStack() as stack:
            for owner, method, name in _PARTS:
                work = self.timed(name, getattr(owner, method))
                stack.enter_context(patch.object(owner, method, work))
            run = self.untimed(Candidate.run_on)
            stack.enter_context(patch.object(Candidate, "run_on", run))
            yield


@dataclass(frozen=True, slots=True)
class Row:
    """One find."""

    problem: str
    seconds: float
    parts: dict[str, float]

    @property
    def share(self) -> float:
        """Time of checks over the time of the find."""
        return sum(self.parts.values()) / self.seconds


def measured(problem: ConvProblem, device: str) -> Row:
    """Find a problem as if for the first time."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        settings = convfind.Settings(user_db_path=Path(folder))
        with convfind.open(device, settings=settings) as handle, clock.running():
            start = time.perf_counter()
            handle.find(problem, use_db=False, isolate="never")
            seconds = time.perf_counter() - start
    return Row(problem.key, seconds, clock.seconds)


@click.command(help=__doc__)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="opencl:cpu", show_default=True)
@click.option("-n", "batch", type=int, help="Another batch size than the files have.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(files: Sequence[Path], device: str, batch: int | None, as_json: bool) -> None:
    """Run the program."""
    problems = [layer.problem for file in files for layer in read_layer_file(file)]
    if batch is not None:
        problems = [problem.with_batch(batch) for problem in problems]
    distinct = list(dict.fromkeys(problems))
    rows = [measured(one, device) for one in track(distinct, console=Console(stderr=True))]
    if as_json:
        click.echo(json.dumps(list(map(asdict, rows)), indent=1))
        return
    whole = Row(
        f"all {len(rows)}",
        sum(row.seconds for row in rows),
        {name: sum(row.parts[name] for row in rows) for _, _, name in _PARTS},
    )
    table = Table("problem", "find s", *(f"{name} ms" for _, _, name in _PARTS), "share")
    for row in (*rows, whole):
        cells = (f"{1e3 * seconds:.1f}" for seconds in row.parts.values())
        table.add_row(row.problem, f"{row.seconds:.2f}", *cells, f"{row.share:.1%}")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
