"""``convfind run``: one convolution on random data or files, checked against NumPy."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from convfind.checking.accuracy import (
    ErrorReport,
    bound_of,
    check_error,
    spread_magnitude,
)
from convfind.checking.random_data import random_operands
from convfind.checking.reference import reference_magnitude, right_result
from convfind.cli.app import App, ProblemCommand
from convfind.cli.find import open_handle
from convfind.cli.memory_order import run_in_memory_order
from convfind.cli.policy_options import takes_policy
from convfind.cli.problem_options import PROBLEM_HELP, one_problem, takes_problems
from convfind.cli.progress import ProgressBar
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.solver import asking
from convfind.text import format_time, gflops

Array = np.ndarray[Any, Any]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    cls=ProblemCommand,
    help="Find, run once, and compare the result with a convolution in NumPy.\n"
    + PROBLEM_HELP
    + """
Tensors are random, or come from .npy files with their axes in the order of the layout. Beside the
time of the solution, which is the device's, stands what the whole call took, copies included.

\b
Examples:
  convfind run --x 1,3,56,56 --w 16,3,7,7 --stride 2 --padding 3
  convfind run --x 1,3,32,32 --w 8,3,3,3 --x-file x.npy --w-file w.npy --output y.npy
  convfind run --algorithm direct conv -n 1 -c 8 -H 9 -W 9 -k 8
""",
)
@takes_problems
@takes_policy
@click.option("--x-file", type=_FILE, help="Data, for directions that read it.")
@click.option("--w-file", type=_FILE, help="Weights, for directions that read them.")
@click.option("--y-file", type=_FILE, help="The tensor y, for backward directions.")
@click.option("--bias-file", type=_FILE, help="The bias, for --bias.")
@click.option("--z-file", type=_FILE, help="The tensor that is added, for --add.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random data."
)
@click.pass_obj
def run(
    app: App,
    /,
    problems: tuple[ConvProblem, ...],
    device: str | None,
    policy: dict[str, Any],
    output: Path | None,
    seed: int,
    **files: Path | None,
) -> None:
    """Run a problem once."""
    problem = one_problem(problems)
    tensors = _tensors(problem, files, seed)
    if policy.get("verify", True):
        _check_finite(tensors, files)
    if problem.reads_result:
        raise ProblemError("beta", problem.beta, "0 here")
    if problem.is_empty:
        raise ProblemError("x", problem.x_shape, "a batch of 1 or more here")
    with open_handle(app, device, policy) as handle:
        with ProgressBar() as progress:
            best = handle.find(problem, on_progress=progress, **policy).best
        run_in_memory_order(handle, problem, best, tensors)  # compiles and fills caches
        start = time.perf_counter()
        result = run_in_memory_order(handle, problem, best, tensors)
        elapsed = 1000 * (time.perf_counter() - start)
        solver = handle.registry.solver(best.solver)
        identity = handle.target.identity
    report: ErrorReport | None = None
    bound = bound_of(solver, problem.plain())
    if policy.get("verify", True):
        first, second = (tensors[name] for name in problem.direction.reads)
        reads = (first, second, tensors.get("z"), tensors.get("bias"))
        # Results of data from files may all be small beside the products that they are sums of.
        magnitude = spread_magnitude(
            reference_magnitude(problem, *reads),
            asking.error_reach(solver, problem.plain()),
            channels_last=problem.tensor_layout(problem.direction.writes).channels_last,
        )
        right = right_result(problem, *reads)
        report = right.error_of(result, magnitude)
    if any(files.values()):
        bound = replace(bound, rms_error=math.inf)  # as relative to results that may all be 0
    correct = report is None or check_error(report, bound)
    if output is not None:
        _save(output, result)
    if app.json:
        app.emit(
            {
                "problem": problem.key,
                "device": identity,
                "solution": best.to_dict(),
                "run_ms": elapsed,
                "error": None if report is None else _finite(report.max_error),
                "rms_error": None if report is None else _finite(report.rms_error),
                "bound": bound.max_error,
                "correct": None if report is None else correct,
            }
        )
    else:
        estimate = best.estimate_ms
        speed = "" if estimate is None else f", {gflops(problem.flops, estimate):.1f} GFLOP/s"
        checked = "not checked" if report is None else f"{report} (bound: {bound})"
        app.print(
            f"problem  {problem.key}",
            f"device   {identity}",
            f"solver   {best.solver}",
            f"time     {format_time(best)} ms ({best.time_origin.value}){speed}; "
            f"the whole call {elapsed:.3f} ms",
            f"error    {checked}",
        )
    if not correct:
        raise click.ClickException(f"the result of {best.solver} is wrong: {report}")


def _save(path: Path, result: Array) -> None:
    try:
        with path.open("wb") as file:  # NumPy itself would add a suffix to the name
            np.save(file, result)
    except OSError as exc:
        if path.is_file() and not path.is_symlink():
            path.unlink()  # a part of a result would look like one
        raise click.ClickException(f"cannot write {path}: {exc.strerror or exc}") from exc


def _finite(error: float) -> float | None:
    return error if math.isfinite(error) else None


def _tensors(problem: ConvProblem, files: dict[str, Path | None], seed: int) -> dict[str, Array]:
    tensors = random_operands(problem, seed)
    for name in ("x", "w", "y", "bias", "z"):
        path = files[f"{name}_file"]
        if path is None:
            continue
        if name not in tensors:
            *others, last = problem.reads
            why = f"nothing: {problem.direction.value} reads {', '.join(others)} and {last}"
            raise ProblemError(f"{name}_file", str(path), why)
        tensors[name] = _load(problem, name, path)
    return tensors


def _check_finite(tensors: dict[str, Array], files: dict[str, Path | None]) -> None:
    """Refuse what no result can be compared on: algorithms differ in where NaN gets to."""
    for name, tensor in tensors.items():
        path = files[f"{name}_file"]
        if path is not None and not np.isfinite(tensor.astype(np.float64)).all():
            raise ProblemError(
                f"{name}_file", str(path), "finite numbers, or --no-verify: nothing is compared"
            )


def _load(problem: ConvProblem, name: str, path: Path) -> Array:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as exc:
        raise ProblemError(f"{name}_file", str(path), f"a .npy file ({exc})") from exc
    except (ValueError, EOFError) as exc:  # NumPy takes it for a pickle, and says how to trust it
        raise ProblemError(f"{name}_file", str(path), "a .npy file of numbers") from exc
    shape = problem.tensor_layout(name).to_memory(problem.shape(name))
    dtype = problem.tensor_dtype(name).numpy
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        found = f"{getattr(array, 'dtype', '?')} {np.shape(array)}"
        raise ProblemError(f"{name}_file", found, f"{dtype} {shape}")
    return np.ascontiguousarray(array)
