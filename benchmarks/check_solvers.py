"""`check_solver` for every installed solver on a device, many solvers at a time.

    python benchmarks/check_solvers.py --device opencl:nvidia --workers 16

Runs the problems of `convfind.testing.edge_cases` in every direction, element type and layout, and
`LARGER` as they are stated, each also with TF32 allowed: some kernels take no fewer channels. Of
each part some have epilogues; solvers that core completes get them with all problems. With
`--kinds` a solver gets a problem of each kind that it takes, where compilers are slow: directions
with each element type, with each layout and with each trait. Exit code 1: a solver broke a promise,
or took none of the problems. Exit code 3: the time was over before everything was checked.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

import convfind
from convfind.device.target import Target
from convfind.handle import Handle
from convfind.kit.composed import Composed
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import Solver
from convfind.solver.applicability import Rejected
from convfind.testing import SolverReport, check_solver, edge_cases, fused, variants
from convfind.types import DataType, Direction, Layout

#: A direction, and what a problem in it has.
Kind = tuple[Direction, Hashable]

_UNREACHED = 3  # exit code
_STDERR = Console(stderr=True)
_OF_DEVICES = {Reason.DEVICE_KIND, Reason.ARCHITECTURE, Reason.FEATURE, Reason.LIBRARY}
#: Shape of x, shape of w, options of `ConvProblem.forward`.
LARGER: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
    ((2, 64, 28, 28), (64, 64, 3, 3), {"padding": 1, "accuracy": "relaxed"}),
    ((1, 136, 15, 13), (200, 136, 3, 3), {"padding": 1}),
    ((2, 128, 19, 14), (96, 128, 3, 3), {"padding": 2, "dilation": 2}),
    ((1, 64, 15, 15), (128, 64, 3, 3), {"padding": 1, "stride": 2}),
    ((2, 128, 17, 17), (128, 128, 1, 7), {"padding": (0, 3)}),
    ((2, 160, 17, 17), (192, 160, 7, 1), {"padding": (3, 0)}),
    ((1, 64, 14, 14), (96, 64, 5, 5), {"padding": 2}),
    ((2, 64, 17, 17), (64, 64, 1, 5), {"padding": (0, 2)}),
    ((2, 64, 17, 17), (64, 64, 1, 3), {"padding": (0, 1)}),
    ((2, 256, 14, 14), (128, 256, 1, 1), {}),
    ((2, 16, 33, 31), (4, 16, 1, 1), {}),
    ((2, 3, 32, 32), (64, 3, 3, 3), {"padding": 1}),
    ((1, 3, 65, 65), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((1, 3, 64, 64), (96, 3, 4, 4), {"stride": 4}),
    ((1, 32, 46, 46), (32, 32, 11, 11), {"padding": 5}),
    ((1, 3, 63, 67), (64, 3, 11, 11), {"padding": 2, "stride": 4}),
    ((1, 32, 31, 33), (40, 32, 9, 9), {"padding": 4, "stride": 2}),
    ((1, 32, 41, 43), (40, 32, 10, 10), {"stride": 3, "dilation": 2}),
    ((2, 64, 28, 28), (64, 1, 3, 3), {"padding": 1, "groups": 64}),
    ((2, 32, 15, 14), (32, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 32}),
    ((2, 32, 28, 28), (32, 1, 7, 7), {"padding": 3, "groups": 32}),
    ((2, 32, 14, 14), (32, 1, 7, 7), {"padding": 3, "groups": 32}),
    ((1, 16, 40, 40), (16, 1, 31, 31), {"padding": 15, "groups": 16}),
    ((2, 64, 28, 28), (64, 8, 3, 3), {"padding": 1, "groups": 8}),
    ((2, 64, 28, 28), (64, 4, 3, 3), {"padding": 1, "groups": 16}),
    ((2, 64, 300), (64, 64, 3), {"padding": 1}),
    ((1, 16, 6, 14, 14), (32, 16, 3, 3, 3), {"padding": 1}),
)


@dataclass(slots=True)
class Result:
    """All reports of one solver, summed up."""

    solver: str
    problems: int = 0
    worst_error: float = 0.0  # largest measured error, as a share of its bound
    failures: list[str] = field(default_factory=list)
    unreached: int = 0  # parts of its problems

    def add(self, report: SolverReport) -> None:
        """Take in a report of a part of the problems."""
        self.problems += len(report.problems)
        self.worst_error = max(self.worst_error, report.worst_error)
        self.failures += map(str, report.failures)

    @property
    def is_bad(self) -> bool:
        """True where a promise was broken, or nothing was checked."""
        return bool(self.failures) or (not self.problems and not self.unreached)


def larger() -> Iterator[ConvProblem]:
    """`LARGER` in all directions and in both layouts, in the types that kernels of GPUs know."""
    for x, w, options in LARGER:
        problem = ConvProblem.forward(x, w, **options)
        for channels_last in (False, True):
            layout = Layout.of(problem.spatial_rank, channels_last=channels_last)
            laid_out = replace(problem, x_layout=layout, w_layout=layout, y_layout=layout)
            for direction in Direction:
                turned = laid_out.with_direction(direction)
                yield turned
                yield replace(turned, allow_tf32=True)
                for dtype in (DataType.FLOAT16, DataType.BFLOAT16):
                    yield replace(turned, dtype=dtype, y_dtype=dtype)
            yield replace(laid_out, dtype=DataType.INT8, y_dtype=DataType.INT32)


class _Worker:
    """A process with a device."""

    handle: Handle

    @classmethod
    def start(cls, device: str) -> None:
        cls.handle = convfind.open(device)

    @classmethod
    def check(
        cls, solver_id: str, part: int, parts: int | None, deadline: float
    ) -> list[SolverReport]:
        """Check a solver on a part of the problems; no reports where the time is over.

        Without a number of parts: on one problem of each kind.
        """
        if time.time() > deadline:
            return []
        solver, device = cls.handle.registry.solver(solver_id), cls.handle.session.device
        asked: tuple[tuple[tuple[ConvProblem, ...], bool], ...]
        asked = ((edge_cases(), True), (tuple(larger()), False))
        if parts is None:
            asked = ((tuple(one_of_each_kind(solver, device.target)), False),)
        elif isinstance(solver, Composed):
            asked = ((all_problems(completed=True), False),)
        return [
            check_solver(solver, device, shapes=shapes[part::parts], every_variant=every_variant)
            for shapes, every_variant in asked
        ]


@cache
def all_problems(*, completed: bool) -> tuple[ConvProblem, ...]:
    """Return all problems as solvers see them; with epilogues for those that core completes."""
    problems = (*(p.plain() for case in edge_cases() for p in variants(case)), *larger())
    return tuple(map(fused, problems)) if completed else problems


def one_of_each_kind(solver: Solver, target: Target) -> Iterator[ConvProblem]:
    """Yield few of the problems that a solver takes, small ones, which have all that any has."""
    problems = all_problems(completed=isinstance(solver, Composed))
    taken = [problem for problem in problems if solver.takes(problem, target)]
    kinds = {problem: kinds_of(problem) for problem in sorted(taken, key=lambda one: one.macs)}
    left = set[Kind]().union(*kinds.values())
    while left:
        chosen = max(kinds, key=lambda problem: len(kinds[problem] & left))
        left -= kinds[chosen]
        yield chosen


def kinds_of(problem: ConvProblem) -> frozenset[Kind]:
    """Return the direction of a problem with everything else that kernels have cases for."""
    layouts = (problem.x_layout, problem.w_layout, problem.y_layout)
    others = (problem.dtype, problem.y_dtype), layouts, *problem.traits
    return frozenset((problem.direction, other) for other in others)


def is_for(solver: Solver, target: Target) -> bool:
    """False where the device, and not the problem, is what a solver refuses."""
    problems = all_problems(completed=isinstance(solver, Composed))
    if any(solver.takes(problem, target) for problem in problems):
        return True
    answers = (solver.takes(problem, target) for problem in problems)
    return not any(isinstance(one, Rejected) and one.reason in _OF_DEVICES for one in answers)


def check_all(
    device: str, ids: Sequence[str], workers: int, parts: int | None, limit: float, seed: int
) -> Iterable[Result]:
    """Check solvers in processes; without a number of parts on one problem of each kind."""
    results = {solver_id: Result(solver_id) for solver_id in ids}
    deadline = time.time() + limit
    jobs = [(solver_id, part) for solver_id in ids for part in range(parts or 1)]
    random.Random(seed).shuffle(jobs)  # what the time does not reach is of all solvers
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _Worker.start, (device,)) as pool:
        tasks = {
            pool.submit(_Worker.check, solver_id, part, parts, deadline): results[solver_id]
            for solver_id, part in jobs
        }
        for task in track(
            as_completed(tasks), "checking", len(tasks), console=_STDERR, transient=True
        ):
            reports = task.result()
            tasks[task].unreached += not reports
            for report in reports:
                tasks[task].add(report)
                if report.failures:
                    _STDERR.print(str(report), markup=False)
    return results.values()


@click.command()
@click.option("--device", default="opencl:cpu", show_default=True)
@click.option("--solvers", default="*", show_default=True, help="Patterns of ids.")
@click.option("--workers", default=os.cpu_count() or 1, help="Processes.  [one a core]")
@click.option("--parts", default=16, show_default=True, help="Parts of a solver's problems.")
@click.option("--kinds", is_flag=True, help="One problem of each kind, in one part.")
@click.option("--time-limit", default=math.inf, help="Begin nothing after so many seconds.")
@click.option("--seed", default=0, show_default=True, help="Of the order, if time is limited.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(
    device: str,
    solvers: str,
    workers: int,
    parts: int,
    kinds: bool,
    time_limit: float,
    seed: int,
    as_json: bool,
) -> None:
    """Check every installed solver that is for the device."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of each worker
    with convfind.open(device) as handle:
        target = handle.target
        ids = [
            solver.solver_id
            for solver in handle.registry.offered(fused(edge_cases()[0]))
            if any(fnmatch(solver.solver_id, pattern) for pattern in solvers.split(","))
            and (not solver.backends or target.backend in solver.backends)
            and is_for(solver, target)
        ]
        title = f"{target.name}, {target.platform}, {target.driver}"
    checked = check_all(device, ids, workers, None if kinds else parts, time_limit, seed)
    results = sorted(checked, key=lambda result: result.solver)
    bad = [result for result in results if result.is_bad]
    unreached = sum(result.unreached for result in results)
    if as_json:
        click.echo(json.dumps({"device": title, "solvers": list(map(asdict, results))}, indent=1))
    else:
        Console(width=120).print(table_of(results, title))
        for failure in (f"{result.solver}: {f}" for result in bad for f in result.failures):
            click.echo(failure)
        click.echo(f"{len(results)} solvers, {len(bad)} bad, {unreached} parts not reached")
    if bad:
        sys.exit(1)
    sys.exit(_UNREACHED if unreached else 0)


def table_of(results: Iterable[Result], title: str) -> Table:
    """Return a line a solver."""
    table = Table(title=title)
    for heading in ("solver", "problems", "largest error over bound", "failures", "unreached"):
        table.add_column(heading, justify="left" if heading == "solver" else "right")
    for one in results:
        cells = (one.problems, f"{one.worst_error:.2f}", len(one.failures), one.unreached)
        table.add_row(one.solver, *map(str, cells))
    return table


if __name__ == "__main__":
    main()
