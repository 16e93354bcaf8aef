"""One checkout against another on the same device: each layer by the same solvers, in turns.

``python benchmarks/before_after.py LAYERS --before FOLDER --after FOLDER --device opencl:cpu``,
each FOLDER made by ``pip install --no-deps --target FOLDER ./packages/core ...``. Each side runs in
a process of its own, of which one computes while the other waits. Only the public interface is
used, so that any two versions can be compared.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

import convfind
from convfind.problem.text import read_layer_file

#: The least duration of a sample.
SAMPLE_SECONDS = 0.01

_DIRECTIONS = {"fwd": "forward", "bwd-data": "backward-data", "bwd-weights": "backward-weights"}

WORKER = r"""
import json, sys, time
import numpy as np
import convfind

handle = convfind.open(sys.argv[1])
rng = np.random.default_rng(0)
prepared = {}

def prepare(key, solver):
    problem = convfind.ConvProblem.from_key(key)
    policy = {"solvers": [solver]} if solver else {}
    found = handle.find(problem, **policy).best
    names = {"fwd": "xw", "bwd-data": "yw", "bwd-weights": "xy"}[problem.direction.short]
    shapes = {"x": problem.x_shape, "w": problem.w_shape, "y": problem.y_shape}
    layouts = {"x": problem.x_layout, "w": problem.w_layout, "y": problem.y_layout}
    types = {"x": problem.dtype, "w": problem.dtype, "y": problem.y_dtype}
    tensors = {}
    for name in names:
        shape = layouts[name].to_memory(shapes[name])
        if types[name].value == "int8":
            values = rng.integers(-8, 8, shape)
        else:
            values = rng.standard_normal(shape, "f4")
        tensors[name] = handle.tensor(values.astype(types[name].numpy))
    convolution = handle.prepare(found)
    prepared[key] = lambda: convolution.run(**tensors)
    prepared[key]()
    handle.synchronize()
    return {"solver": found.solver}

def choose(key):
    found = handle.find(convfind.ConvProblem.from_key(key), "FAST")
    return {"solvers": [solution.solver for solution in found.solutions]}

def sample(key, calls):
    run = prepared[key]
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    handle.synchronize()
    return {"ms": (time.perf_counter() - begin) / calls * 1e3}

for line in sys.stdin:
    order = json.loads(line)
    try:
        answer = {"choose": choose, "prepare": prepare, "sample": sample}[order.pop("do")](**order)
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
"""


class Side:
    """A process that has one of the two installations."""

    def __init__(self, folder: Path, device: str, scratch: Path) -> None:
        environment = {**os.environ, "CONVFIND_USER_DB_PATH": str(scratch)}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(folder), os.environ.get("PYTHONPATH", "")))
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, do: str, **order: object) -> dict[str, Any]:
        """Have something done. Raises `ClickException` where that fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": do, **order}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer:
            raise click.ClickException(answer["error"])
        return answer


@dataclass(frozen=True, slots=True)
class Row:
    """One problem by one solver, on both sides."""

    problem: str
    solver: str
    chosen_after: str  # by a find of the other side
    before_ms: float
    after_ms: float

    @property
    def ratio(self) -> float:
        """Time after over time before."""
        return self.after_ms / self.before_ms


def chosen(key: str, before: Side, after: Side) -> tuple[str, str]:
    """Find a problem on both sides and prepare what was chosen before; return both choices."""
    solver = before.ask("prepare", key=key, solver=None)["solver"]
    own = after.ask("prepare", key=key, solver=None)["solver"]
    if own != solver:
        after.ask("prepare", key=key, solver=solver)
    return solver, own


def expected(key: str, before: Side, after: Side) -> tuple[str, str]:
    """Prepare the solver that the later side expects to be the fastest of those of both."""
    told: click.ClickException | None = None
    for solver in after.ask("choose", key=key)["solvers"]:
        try:
            before.ask("prepare", key=key, solver=solver)
        except click.ClickException as error:
            told = told or error
            continue
        after.ask("prepare", key=key, solver=solver)
        return solver, solver
    raise told or click.ClickException("no solver")


def compared(
    key: str, before: Side, after: Side, rounds: int, choose: Callable[..., tuple[str, str]]
) -> Row:
    """Time one solver of a problem on both sides, in turns."""
    solver, own = choose(key, before, after)
    first = before.ask("sample", key=key, calls=3)["ms"]
    calls = max(1, math.ceil(SAMPLE_SECONDS * 1e3 / first))
    times: dict[str, list[float]] = {"before": [], "after": []}
    for turn in range(rounds):
        sides = [("before", before), ("after", after)]
        for name, side in sides if turn % 2 else reversed(sides):
            times[name].append(side.ask("sample", key=key, calls=calls)["ms"])
    # Other work of the machine only makes samples slower.
    least = {name: min(samples) for name, samples in times.items()}
    return Row(key, solver, own, least["before"], least["after"])


@click.command(help=__doc__)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--before", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--after", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="opencl:cpu")
@click.option("--direction", default="all", type=click.Choice([*_DIRECTIONS, "all"]))
@click.option("-n", "batch", type=int, help="Another batch size than the files have.")
@click.option("--layout", type=click.Choice(["NCHW", "NHWC"]))
@click.option("--rounds", default=9)
@click.option("--every", default=1, help="Every how many-th layer of a file.")
@click.option("--estimate", is_flag=True, help="Find nothing: take who is expected to win.")
@click.option("--seconds", default=math.inf, help="No problem begins later.")
@click.option("--databases", type=click.Path(path_type=Path), help="Folder to keep finds in.")
@click.option("--output", type=click.Path(path_type=Path), help="All rows as JSON.")
def main(
    files: Sequence[Path],
    before: Path,
    after: Path,
    device: str,
    direction: str,
    batch: int | None,
    layout: str | None,
    rounds: int,
    every: int,
    estimate: bool,
    seconds: float,
    databases: Path | None,
    output: Path | None,
) -> None:
    """Run the program."""
    keys = list(
        dict.fromkeys(k for file in files for k in _keys(file, direction, batch, layout, every))
    )
    rows: list[Row] = []
    console = Console(width=160)
    with tempfile.TemporaryDirectory() as scratch:
        folder = databases or Path(scratch)
        old, new = (
            Side(side, device, folder / name)
            for name, side in (("before", before), ("after", after))
        )
        end = time.monotonic() + seconds
        for key in track(keys, console=Console(stderr=True)):
            if time.monotonic() > end:
                console.print(f"{key}: not begun", soft_wrap=True)
                continue
            try:
                rows.append(compared(key, old, new, rounds, expected if estimate else chosen))
            except click.ClickException as error:
                console.print(f"{key}: {error.message}", soft_wrap=True)
    table = Table("problem", "solver", "before ms", "after ms", "after / before", "chosen after")
    for row in rows:
        other = "" if row.chosen_after == row.solver else row.chosen_after
        cells = (f"{row.before_ms:.4f}", f"{row.after_ms:.4f}", f"{row.ratio:.3f}", other)
        table.add_row(row.problem, row.solver, *cells)
    console.print(table)
    if rows:
        mean = statistics.geometric_mean(row.ratio for row in rows)
        worst = max(rows, key=lambda row: row.ratio)
        console.print(f"{len(rows)} rows: geometric mean {mean:.4f}, most {worst.ratio:.3f}")
    if output is not None:
        data = [[r.problem, r.solver, r.before_ms, r.after_ms, r.chosen_after] for r in rows]
        output.write_text(json.dumps(data), encoding="utf-8")


def _keys(
    file: Path, direction: str, batch: int | None, layout: str | None, every: int
) -> list[str]:
    """Return the problems of a layer file as keys."""
    keys = []
    words = list(_DIRECTIONS) if direction == "all" else [direction]
    for layer in read_layer_file(file)[::every]:
        problem = layer.problem
        if batch is not None:
            problem = problem.with_batch(batch)
        if layout is not None:
            last = convfind.Layout.of(len(problem.filter), channels_last=layout == "NHWC")
            problem = replace(problem, x_layout=last, w_layout=last, y_layout=last)
        keys += [problem.with_direction(_DIRECTIONS[word]).key for word in words]
    return keys


if __name__ == "__main__":
    main()
