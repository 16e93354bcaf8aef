"""The forms of our solvers side by side: sizes compiled in or not, default config or tuned.

A share is a speed relative to the better form's: of the dynamic form to the fixed one's, of the
default config to the tuned one's. Every time is of a verified result.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import convfind
from convfind.cli.problem_options import directions_of
from convfind.errors import NoSolverError
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.problem.text import read_layer_file

#: The end of the id of a solver that compiles sizes in.
FIXED = "-fixed"


@dataclass(frozen=True, slots=True)
class Row:
    """A solver on a layer: times in ms, None where a form was not measured."""

    problem: str
    solver: str
    dynamic_ms: float  # of the only form, where there is no other
    fixed_ms: float | None
    tuned_ms: float | None  # of the dynamic form
    config: str
    tuned_config: str

    @property
    def dynamic_share(self) -> float | None:
        """Speed of the dynamic form over that of the fixed one."""
        return None if self.fixed_ms is None else self.fixed_ms / self.dynamic_ms

    @property
    def default_share(self) -> float | None:
        """Speed of the default config over that of the tuned one, at most 1."""
        return None if self.tuned_ms is None else min(self.tuned_ms / self.dynamic_ms, 1.0)


def rows_of(
    handle: Handle, problem: ConvProblem, ids: frozenset[str], budget: float | None
) -> Iterator[Row]:
    """Measure a problem's solvers; with a ``budget`` in seconds tune the dynamic ones, too."""
    defaults = _times(handle, problem, solvers=ids)
    dynamic = frozenset(i for i in defaults if not i.endswith(FIXED))
    tuned = {}
    if budget is not None and dynamic:
        tuned = _times(handle, problem, solvers=dynamic, tune=True, time_budget=budget)
    for solver in sorted(dynamic):
        plain, fixed, best = defaults[solver], defaults.get(solver + FIXED), tuned.get(solver)
        yield Row(
            problem=problem.key,
            solver=solver,
            dynamic_ms=plain.signed_ms,
            fixed_ms=fixed.time_ms if fixed else None,
            tuned_ms=best.time_ms if best and best.config else None,
            config=str(plain.config or ""),
            tuned_config=str(best.config or "") if best else "",
        )


def _times(handle: Handle, problem: ConvProblem, **policy: Any) -> dict[str, convfind.Solution]:
    """Solutions by solver; configs that were tuned earlier are not used."""
    try:
        found = handle.find(problem, mode="NORMAL", retune=True, **policy)
    except NoSolverError:
        return {}
    return {solution.solver: solution for solution in found.solutions}


def table_of(rows: Iterable[Row], title: str) -> Table:
    """Return times in ms, shares, and what they are over all layers of a solver."""
    table = Table(title=title)
    for heading in ("problem", "solver", "dynamic", "fixed", "share", "tuned", "share", "config"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row.problem,
            row.solver,
            *map(_number, (row.dynamic_ms, row.fixed_ms, row.dynamic_share)),
            *map(_number, (row.tuned_ms, row.default_share)),
            row.tuned_config or row.config,
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def summary(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a line for each solver: geometric means and the worst shares."""
    shares: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        for name, share in (("dynamic", row.dynamic_share), ("default", row.default_share)):
            if share is not None:
                shares.setdefault((row.solver, name), []).append(share)
    for (solver, name), values in sorted(shares.items()):
        mean = statistics.geometric_mean(values)
        yield f"{solver}: {name} {mean:.2f}, worst {min(values):.2f}, of {len(values)} layers"


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-n", "batch", type=int, help="Batch size instead of the file's.")
@click.option("--direction", "directions", default="fwd", show_default=True, help="fwd,bwd-data,..")
@click.option("--device", default="opencl:cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True)
@click.option("--allow-tf32", is_flag=True)
@click.option("--layouts", default="NCHW,NHWC", show_default=True)
@click.option("--solvers", default="*", show_default=True, help="Patterns of ids.")
@click.option("--tune", "budget", type=float, help="Tune too, for so many seconds a problem.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON a row, as it is measured.")
def main(
    file: Path,
    batch: int | None,
    directions: str,
    device: str,
    dtype: str,
    allow_tf32: bool,
    layouts: str,
    solvers: str,
    budget: float | None,
    as_json: bool,
) -> None:
    """Compare forms on the layers of FILE."""
    kind = convfind.DataType(dtype)
    rows: list[Row] = []
    with convfind.open(device) as handle:
        ids = frozenset(
            solver.solver_id
            for solver in handle.registry.solvers
            if any(fnmatch(solver.solver_id, pattern) for pattern in solvers.split(","))
        )
        for problem in _problems(file, batch, directions, layouts):
            stated = replace(problem, dtype=kind, y_dtype=kind.result, allow_tf32=allow_tf32)
            for row in rows_of(handle, stated, ids, budget):
                rows.append(row)
                if as_json:
                    shares = {"dynamic": row.dynamic_share, "default": row.default_share}
                    click.echo(json.dumps({**asdict(row), "shares": shares}))
        title = f"{handle.target.name}, {handle.target.platform}, {handle.target.driver}"
    if as_json:
        return
    Console(width=220).print(table_of(rows, title))
    for line in summary(rows):
        click.echo(line)


def _problems(
    file: Path, batch: int | None, directions: str, layouts: str
) -> Iterator[ConvProblem]:
    """Yield each layer in each direction and layout."""
    wanted = [d for text in directions.split(",") for d in directions_of(text)]
    for direction in wanted:
        for layer in read_layer_file(file):
            problem = layer.problem.with_direction(direction)
            problem = problem if batch is None else problem.with_batch(batch)
            for name in layouts.split(","):
                layout = convfind.Layout(name)
                yield replace(problem, x_layout=layout, w_layout=layout, y_layout=layout)


if __name__ == "__main__":
    main()
