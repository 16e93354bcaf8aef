"""``convfind bench``: every layer of a network, found, verified, run and timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from convfind.checking.accuracy import bound_of, check_error
from convfind.checking.measuring import Measurement
from convfind.checking.random_data import random_operands
from convfind.cli.ahead import Ahead
from convfind.cli.app import App, Command
from convfind.cli.epilogue_options import takes_epilogue
from convfind.cli.find import open_handle
from convfind.cli.layer_result import LayerResult, csv_text, layer_json, table_of, totals_of
from convfind.cli.layer_source import read_layers
from convfind.cli.memory_order import run_in_memory_order
from convfind.cli.policy_options import takes_policy
from convfind.cli.problem_options import (
    batch_option,
    dims_option,
    direction_option,
    directions_of,
)
from convfind.cli.progress import ProgressBar
from convfind.cli.retiming import retime
from convfind.cli.roof import Roof, peak_options
from convfind.cli.spot_check import spot_check
from convfind.errors import ConvfindError
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.problem.text import Layer
from convfind.solver import asking
from convfind.text import doubt_notes, noise_notes

Retime = Callable[[Handle, ConvProblem, Solution], Measurement]


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@batch_option
@dims_option
@direction_option
@takes_epilogue
@takes_policy
@click.option(
    "--iterations", type=click.IntRange(min=1), help="Time each layer again, in so many runs."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Time each layer again, for so long.",
)
@peak_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a line a layer, and nothing else.")
@click.pass_obj
def bench(
    app: App,
    file: Path,
    batch: int | None,
    dims: dict[str, int],
    direction: str | None,
    with_epilogue: Callable[[ConvProblem], ConvProblem],
    device: str | None,
    policy: dict[str, Any],
    iterations: int | None,
    seconds: float | None,
    peak_gflops: float | None,
    peak_gbs: float | None,
    as_csv: bool,
) -> None:
    """Find, verify, run and time every layer of FILE; exits 1 if any of them fails.

    FILE has a MIOpenDriver line a layer; "# x3" behind it says how often the network has the layer,
    which the totals count. It may be an ONNX model, which needs the library onnx, or another file
    that a package reads. Times are the device's: from this find or an earlier one that the database
    remembers, or with --iterations or --seconds from runs now, whose minimum, median and maximum
    are shown. The bound is the time that peak arithmetic and bandwidth leave a direct convolution;
    others may be faster.

    \b
    Examples:
      convfind bench layers.txt -n 4
      convfind bench layers.txt --iterations 20 --peak-gflops 200 --peak-gbs 40
      convfind bench net.onnx --seconds 0.1 --constant-weights --csv > net.csv
      convfind bench layers.txt -n 2 --direction all --device opencl:cpu --json
    """
    if as_csv and app.json:
        raise click.UsageError("--csv and --json are two forms of one output; give one")
    layers = [
        replace(layer, problem=with_epilogue(layer.problem))
        for layer in read_layers(app.registry, file, batch, directions_of(direction), dims)
    ]

    def timed(handle: Handle, problem: ConvProblem, best: Solution) -> Measurement:
        return retime(handle, problem, best, iterations=iterations, seconds=seconds)

    again = None if iterations is None and seconds is None else timed
    results: list[LayerResult] = []
    with (
        open_handle(app, device, policy) as handle,
        ProgressBar(file.name, len(layers)) as progress,
    ):
        ahead = Ahead.of(handle, layers, progress, policy)
        for done, layer in enumerate(layers):
            progress.advance(layer.problem.key, done)
            results.append(_bench(handle, layer, progress, policy, again))
        target = handle.target
    roof = Roof.of(target, peak_gflops, peak_gbs)
    if app.json:
        app.emit(_document(file, target.identity, results, roof, ahead))
    elif as_csv:
        click.echo(csv_text([layer_json(result, roof) for result in results]), nl=False)
    else:
        _print(app, target.identity, results, roof, ahead)
    failed = [result for result in results if result.failure]
    if failed:
        raise click.ClickException(f"{len(failed)} of {len(results)} layers failed")


def _bench(
    handle: Handle,
    layer: Layer,
    progress: ProgressBar,
    policy: dict[str, Any],
    again: Retime | None,
) -> LayerResult:
    try:
        found = handle.find(layer.problem, on_progress=progress, **policy)
        best = found.best
        progress("run", 0, 1, best.solver)
        failure = _run(handle, layer.problem, best)
        timing = again(handle, layer.problem, best) if again and not failure else None
        return LayerResult(layer, found, best, timing, failure)
    except ConvfindError as error:
        return LayerResult(layer, failure=str(error))
    except MemoryError as error:
        return LayerResult(layer, failure=f"the host has no memory for it: {error}")


def _run(handle: Handle, problem: ConvProblem, best: Solution) -> str:
    """Run a solution once as a user would; returns what is wrong with the result."""
    tensors = random_operands(problem, seed=0)
    result = run_in_memory_order(handle, problem, best, tensors)
    solver, plain = handle.registry.solver(best.solver), problem.plain()
    report = spot_check(problem, tensors, result, reach=asking.error_reach(solver, plain))
    bound = bound_of(solver, plain)
    return "" if check_error(report, bound) else f"the result of {best.solver} is wrong: {report}"


def _document(
    file: Path, identity: str, results: Sequence[LayerResult], roof: Roof | None, ahead: Ahead
) -> dict[str, Any]:
    return {
        "file": str(file),
        "device": identity,
        "layers": [layer_json(result, roof) for result in results],
        "totals": totals_of(results),
        "compiled": ahead.compiled + sum(one.find.compiled for one in results if one.find),
        "ahead_s": ahead.elapsed,
        "measured": sum(result.find.measured for result in results if result.find),
        "failed": sum(1 for result in results if result.failure),
    }


def _print(
    app: App, identity: str, results: Sequence[LayerResult], roof: Roof | None, ahead: Ahead
) -> None:
    app.print(f"device   {identity}", table_of(results, roof))
    for direction, total in totals_of(results).items():
        app.print(
            f"{direction}: {total['layers']:.0f} layers, {total['time_ms']:.3f} ms, "
            f"{total['gflops']:.1f} GFLOP/s"
        )
    finds = [result.find for result in results if result.find]
    app.print(
        f"{ahead.compiled + sum(find.compiled for find in finds)} compiled, "
        f"{sum(find.measured for find in finds)} measured, "
        f"{ahead.elapsed + sum(find.elapsed for find in finds):.1f} s in finds"
    )
    app.print(*noise_notes(sum(1 for result in results if result.best and result.best.is_noisy)))
    app.print(*doubt_notes(sum(find.is_in_doubt for find in finds)))
    for result in results:
        if result.failure:
            where = f"line {result.layer.line_number}, {result.layer.problem.direction.short}"
            app.print(f"failed: {where}: {result.failure}")
