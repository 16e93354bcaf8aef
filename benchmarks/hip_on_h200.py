"""The HIP backend on an NVIDIA GPU, beside the OpenCL backend with the same solvers and configs.

ROCm is a stand-in over CUDA: AMD's compiler and devices take no part. The
comparison is of what the backends add around the same kernel source. Results are checked before
they are timed.

tests/standin_rocm/cuda/build_cuda.sh /tmp/rocm
ROCM_PATH=/tmp/rocm python benchmarks/hip_on_h200.py benchmarks/layers/headline.txt
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import convfind
from convfind.checking.workbench import Candidate, Workbench
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.problem.text import read_layer_file
from convfind.solver import Solver, TunableSolver
from convfind.types import Direction

ROUNDS = 9
SAMPLES = 5  # in a row, of which the first is dropped


@dataclass(frozen=True, slots=True)
class Row:
    """One solver on one problem: medians in ms, the error against the reference in its bounds."""

    problem: str
    solver: str
    hip_ms: float
    opencl_ms: float | None  # None where the OpenCL backend has no such solver
    hip_error: float
    opencl_error: float | None


def ready(handle: Handle, problem: ConvProblem, solver: Solver, near: Handle) -> Candidate:
    """Compile a solver in the default configuration of another handle's device."""
    config = None
    if isinstance(solver, TunableSolver):
        config = solver.default_config(problem, near.target)
    solution = solver.solution(problem, handle.target, config)
    device = handle.session.device
    loaded = {
        program: device.load(program, device.compile(program)) for program in solution.programs
    }
    return Workbench(problem, handle.session, constant_weights=False).candidate(solution, loaded)


def sample(candidate: Candidate) -> float:
    """Return the median of a few samples in a row."""
    return statistics.median([candidate.sample() for _ in range(SAMPLES)][1:])


def compared(hip: Handle, opencl: Handle, problem: ConvProblem, solver: Solver) -> Row:
    """Check a solver on both backends and time it in turns."""
    handles = [hip] + [opencl] * bool(solver.takes(problem, opencl.target))
    if solver.backends is not None:
        handles = [handle for handle in handles if handle.target.backend in solver.backends]
    candidates = [ready(handle, problem, solver, hip) for handle in handles]
    errors = [candidate.verify(solver).error.max_error for candidate in candidates]
    times: list[list[float]] = [[] for _ in candidates]
    for _ in range(ROUNDS):
        for candidate, found in zip(candidates, times, strict=True):
            found.append(sample(candidate))
    hip_ms, opencl_ms = (*(statistics.median(found) for found in times), None)[:2]
    hip_error, opencl_error = (*errors, None)[:2]
    assert hip_ms is not None
    assert hip_error is not None
    return Row(problem.key, solver.solver_id, hip_ms, opencl_ms, hip_error, opencl_error)


def pairs(
    hip: Handle, problems: Sequence[ConvProblem], patterns: Sequence[str]
) -> Iterator[tuple[ConvProblem, Solver]]:
    """Yield each problem with each chosen solver that takes it."""
    for problem in problems:
        for solver in hip.registry.solvers_for(hip.target)[0]:
            chosen = any(fnmatch(solver.solver_id, pattern) for pattern in patterns)
            if chosen and solver.takes(problem, hip.target):
                yield problem, solver


def table_of(rows: Sequence[Row]) -> Table:
    """Return the rows, and how much longer the HIP backend takes."""
    table = Table("problem", "solver", "hip ms", "opencl ms", "hip / opencl", "hip error")
    for row in rows:
        ratio = f"{row.hip_ms / row.opencl_ms:.3f}" if row.opencl_ms else "-"
        opencl_ms = f"{row.opencl_ms:.4f}" if row.opencl_ms else "-"
        cells = (f"{row.hip_ms:.4f}", opencl_ms, ratio, f"{row.hip_error:.1e}")
        table.add_row(row.problem, row.solver, *cells)
    return table


@click.command(help=__doc__)
@click.argument("layers", type=click.Path(exists=True, path_type=Path))
@click.option("--solvers", default="igemm-gpu-nchw-*,hip-gemm-*", help="Patterns, by commas.")
@click.option("--all-directions", is_flag=True, help="Backward, too.")
@click.option("--device", default="opencl:nvidia", help="To compare with.")
@click.option("--seconds", default=240.0, help="Begin no pair later than that.")
@click.option("--json", "as_json", is_flag=True)
def main(
    layers: Path, solvers: str, all_directions: bool, device: str, seconds: float, as_json: bool
) -> None:
    """Print one row for each problem and solver."""
    console = Console(width=200)
    deadline = time.monotonic() + seconds
    directions = tuple(Direction) if all_directions else (Direction.FORWARD,)
    problems = [
        layer.problem.with_direction(direction)
        for direction in directions
        for layer in read_layer_file(layers)
    ]
    rows = []
    with convfind.open("hip:0") as hip, convfind.open(device) as opencl:
        for problem, solver in pairs(hip, problems, solvers.split(",")):
            if time.monotonic() > deadline:
                console.print("out of time")
                break
            try:
                rows.append(compared(hip, opencl, problem, solver))
            except ConvfindError as exc:
                console.print(f"{solver.solver_id} on {problem.key}: {exc}")
                continue
            progress = f"{solver.solver_id} {problem.key}: {rows[-1].hip_ms:.4f} ms"
            console.print(progress, soft_wrap=True)
    if as_json:
        console.print_json(json.dumps([asdict(row) for row in rows]))
    console.print(table_of(rows))


if __name__ == "__main__":
    main()
