"""The cost of immediate mode's first choice: its time in a find over that of the fastest.

    python benchmarks/first_choices.py benchmarks/layers/resnet50.txt -n 4 --device opencl:cpu

All layers without groups, in all directions and both layouts. The database is a new one, so that
nothing is known: by a heuristic model, where one applies, and by the throughput index.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
from rich.progress import track

import convfind
from convfind.problem import ConvProblem
from convfind.problem.text.layer_file import read_layer_file
from convfind.types import Direction, Layout

_FALLBACKS = ("ai", "wti")


@click.command()
@click.argument("layers", type=click.Path(path_type=Path, exists=True))
@click.option("-n", "--batch", required=True, type=int)
@click.option("--device", help="Such as opencl:cpu.  [CONVFIND_DEVICE, else the best]")
@click.option("--most-gmacs", default=3.0, show_default=True, help="Of one problem.")
def main(layers: Path, batch: int, device: str | None, most_gmacs: float) -> None:
    """Compare first choices for LAYERS with finds."""
    problems = {problem.key: problem for problem in _problems(layers, batch)}
    chosen = [problem for problem in problems.values() if problem.macs <= most_gmacs * 1e9]
    costs: dict[str, list[float]] = {name: [] for name in _FALLBACKS}
    with (
        tempfile.TemporaryDirectory() as folder,
        convfind.open(device, settings=convfind.Settings(user_db_path=Path(folder))) as handle,
    ):
        for problem in track(chosen, "finding"):
            first = {name: handle.find(problem, "FAST", fallback=name).best for name in _FALLBACKS}
            times = _times(handle.find(problem))
            for name, solution in first.items():
                costs[name].append(times[solution.solver] / min(times.values()))
    click.echo(f"problems  {len(chosen)}")
    for name, slower in costs.items():
        p95 = statistics.quantiles(slower, n=20)[-1]
        click.echo(
            f"{name:8}  {math.exp(statistics.fmean(map(math.log, slower))):.4f}, p95 {p95:.2f}"
        )


def _times(found: convfind.FindResult) -> dict[str, float]:
    return {one.solver: one.time_ms for one in found.solutions if one.time_ms is not None}


def _problems(layers: Path, batch: int) -> Iterator[ConvProblem]:
    for layer in read_layer_file(layers):
        plain = layer.problem.plain().with_batch(batch)
        if plain.groups == 1:
            for direction in Direction:
                for channels_last in (False, True):
                    layout = Layout.of(plain.spatial_rank, channels_last=channels_last)
                    yield replace(
                        plain.with_direction(direction),
                        x_layout=layout,
                        w_layout=layout,
                        y_layout=layout,
                    )


if __name__ == "__main__":
    main()
