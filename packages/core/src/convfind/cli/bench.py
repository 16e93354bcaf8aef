"""``convfind bench``: every layer of a network, found, verified and run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from convfind.checking.accuracy import bound_of, check_error, random_operands
from convfind.cli.app import App, Command, new_table
from convfind.cli.find import open_handle
from convfind.cli.memory_order import run_in_memory_order
from convfind.cli.policy_options import takes_policy
from convfind.cli.problem_options import batch_option, direction_option, directions_of
from convfind.cli.progress import ProgressBar
from convfind.cli.spot_check import spot_check
from convfind.errors import ConvfindError
from convfind.find.result import FindResult
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.problem.text import Layer, read_layer_file
from convfind.solver import asking
from convfind.text import (
    format_error,
    format_ms,
    format_spread,
    gflops,
    gigabytes,
    noise_notes,
)
from convfind.types import Direction


@dataclass(frozen=True, slots=True)
class LayerResult:
    """What came of one layer in one direction; ``failure`` is empty where all went well."""

    layer: Layer
    find: FindResult | None = None
    best: Solution | None = None
    failure: str = ""

    @property
    def time_ms(self) -> float:
        """Measured time of the best solution; 0 where there is none."""
        return (self.best and self.best.time_ms) or 0.0


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@batch_option
@direction_option
@takes_policy
@click.pass_obj
def bench(
    app: App,
    file: Path,
    batch: int | None,
    direction: str | None,
    device: str | None,
    policy: dict[str, Any],
) -> None:
    """Find, verify and run every layer of FILE; exits 1 if any of them fails.

    FILE has a MIOpenDriver line a layer; "# x3" behind it says how often the network has the layer,
    which the totals count. Times are the device's, from this find or an earlier one that the
    database remembers.

    \b
    Examples:
      convfind bench benchmarks/layers/resnet50.txt -n 4
      convfind bench resnet50.txt -n 16 --direction all --device opencl:cpu --json
    """
    layers = tuple(_layers(read_layer_file(file), batch, directions_of(direction)))
    results: list[LayerResult] = []
    with (
        open_handle(app, device, policy) as handle,
        ProgressBar(file.name, len(layers)) as progress,
    ):
        for done, layer in enumerate(layers):
            progress.advance(layer.problem.key, done)
            results.append(_bench(handle, layer, progress, policy))
        identity = handle.target.identity
    if app.json:
        app.emit(_document(file, identity, results))
    else:
        _print(app, identity, results)
    failed = [result for result in results if result.failure]
    if failed:
        raise click.ClickException(f"{len(failed)} of {len(results)} layers failed")


def _layers(
    layers: Sequence[Layer], batch: int | None, directions: Sequence[Direction]
) -> Iterator[Layer]:
    """Yield each layer in the directions asked for, in its own without any."""
    seen: set[int] = set()
    for layer in layers:
        problem = layer.problem if batch is None else layer.problem.with_batch(batch)
        if not directions:
            yield replace(layer, problem=problem)
        elif layer.line_number not in seen:
            # A line for several directions reads as several layers.
            seen.add(layer.line_number)
            for direction in directions:
                yield replace(layer, problem=problem.with_direction(direction))


def _bench(
    handle: Handle, layer: Layer, progress: ProgressBar, policy: dict[str, Any]
) -> LayerResult:
    try:
        found = handle.find(layer.problem, on_progress=progress, **policy)
        best = found.best
        progress("run", 0, 1, best.solver)
        return LayerResult(layer, found, best, _run(handle, layer.problem, best))
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


def _totals(results: Sequence[LayerResult]) -> dict[str, dict[str, float]]:
    """Sums over the network, by direction: layers count as often as the network has them."""
    totals: dict[str, dict[str, float]] = {}
    for result in results:
        problem, count = result.layer.problem, result.layer.count
        total = totals.setdefault(
            problem.direction.short, {"layers": 0, "time_ms": 0.0, "gflop": 0.0, "failed": 0}
        )
        total["layers"] += count
        total["failed"] += count if result.failure else 0
        if result.time_ms:
            total["time_ms"] += count * result.time_ms
            total["gflop"] += count * problem.flops / 1e9
    for total in totals.values():
        total["gflops"] = 1e3 * total["gflop"] / total["time_ms"] if total["time_ms"] else 0.0
    return totals


def _document(file: Path, identity: str, results: Sequence[LayerResult]) -> dict[str, Any]:
    return {
        "file": str(file),
        "device": identity,
        "layers": [_layer_json(result) for result in results],
        "totals": _totals(results),
        "compiled": sum(result.find.compiled for result in results if result.find),
        "measured": sum(result.find.measured for result in results if result.find),
        "failed": sum(1 for result in results if result.failure),
    }


def _layer_json(result: LayerResult) -> dict[str, Any]:
    problem, best = result.layer.problem, result.best
    return {
        "line": result.layer.line_number,
        "comment": result.layer.comment,
        "count": result.layer.count,
        "problem": problem.key,
        "direction": problem.direction.value,
        "solver": best.solver if best else None,
        "algorithm": best.algorithm.value if best else None,
        "time_ms": best.signed_ms if best else None,
        "time_origin": best.time_origin.value if best else None,
        "samples": best.samples if best else None,
        "spread_ms": best.spread if best else None,
        "noisy": best.is_noisy if best else None,
        "workspace": best.workspace if best else None,
        "error": best.error if best else None,
        "gflops": gflops(problem.flops, result.time_ms),
        "gbytes_per_s": gigabytes(problem.traffic, result.time_ms),
        "origin": result.find.origin.value if result.find else None,
        "compiled": result.find.compiled if result.find else 0,
        "measured": result.find.measured if result.find else 0,
        "elapsed_s": result.find.elapsed if result.find else None,
        "failure": result.failure or None,
    }


def _print(app: App, identity: str, results: Sequence[LayerResult]) -> None:
    app.print(f"device   {identity}")
    numbers = ("line", "x", "ms", "GFLOP/s", "GB/s", "error")
    table = new_table(
        *("line", "x", "layer", "direction", "solver", "ms", "spread", "GFLOP/s", "GB/s"),
        *("error", "from"),
        right=numbers,
    )
    for result in results:
        problem, best = result.layer.problem, result.best
        time_ms = result.time_ms
        table.add_row(
            str(result.layer.line_number),
            str(result.layer.count),
            _layer_text(problem),
            problem.direction.short,
            best.solver if best else "-",
            format_ms(time_ms) if time_ms else "-",
            format_spread(time_ms, best.spread, best.samples) if best else "-",
            f"{gflops(problem.flops, time_ms):.1f}" if time_ms else "-",
            f"{gigabytes(problem.traffic, time_ms):.1f}" if time_ms else "-",
            format_error(best.error) if best else "-",
            result.find.origin.value if result.find else "-",
        )
    app.print(table)
    for direction, total in _totals(results).items():
        app.print(
            f"{direction}: {total['layers']:.0f} layers, {total['time_ms']:.3f} ms, "
            f"{total['gflops']:.1f} GFLOP/s"
        )
    finds = [result.find for result in results if result.find]
    app.print(
        f"{sum(find.compiled for find in finds)} compiled, "
        f"{sum(find.measured for find in finds)} measured, "
        f"{sum(find.elapsed for find in finds):.1f} s in finds"
    )
    app.print(*noise_notes(sum(1 for result in results if result.best and result.best.is_noisy)))
    for result in results:
        if result.failure:
            where = f"line {result.layer.line_number}, {result.layer.problem.direction.short}"
            app.print(f"failed: {where}: {result.failure}")


def _layer_text(problem: ConvProblem) -> str:
    """Show a layer briefly: data, filter, stride, and whatever is out of the ordinary."""
    words = ["x".join(map(str, problem.x_shape)), "*", "x".join(map(str, problem.w_shape))]
    if any(step != 1 for step in problem.stride):
        words.append("s" + "x".join(map(str, problem.stride)))
    if any(step != 1 for step in problem.dilation):
        words.append("d" + "x".join(map(str, problem.dilation)))
    if problem.groups != 1:
        words.append(f"g{problem.groups}")
    return " ".join(words)
