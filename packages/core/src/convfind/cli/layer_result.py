"""`LayerResult`: what came of one layer of a file, as JSON, CSV and a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from convfind.checking.measuring import Measurement
from convfind.cli.roof import Roof
from convfind.find.result import FindResult
from convfind.find.solution import Solution
from convfind.problem import ConvProblem
from convfind.problem.text import Layer
from convfind.text import format_error, format_ms, format_spread, gflops, gigabytes, new_table


@dataclass(frozen=True, slots=True)
class LayerResult:
    """The result of one layer in one direction; ``failure`` is empty where all went well."""

    layer: Layer
    find: FindResult | None = None
    best: Solution | None = None
    timing: Measurement | None = None  # taken now, where that was asked for
    failure: str = ""

    @property
    def time_ms(self) -> float:
        """Measured time of the best solution, now or by the find; 0 where there is none."""
        if self.timing is not None:
            return self.timing.median
        return (self.best and self.best.time_ms) or 0.0


def totals_of(results: Sequence[LayerResult]) -> dict[str, dict[str, float]]:
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


def layer_json(result: LayerResult, roof: Roof | None) -> dict[str, Any]:
    """Describe a result; times of runs now are those with ``run_`` before their names."""
    problem, best, timing = result.layer.problem, result.best, result.timing
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
        "runs": len(timing.samples) if timing else None,
        "run_min_ms": timing.least if timing else None,
        "run_median_ms": timing.median if timing else None,
        "run_max_ms": max(timing.samples) if timing else None,
        "bound_share": _share(result, roof),
    }


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows with equal fields as CSV, their names first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def table_of(results: Sequence[LayerResult], roof: Roof | None) -> Table:
    """Return the table for people: times of runs now where there are some, else the find's."""
    is_timed = any(result.timing for result in results)
    times = ("min ms", "median ms", "max ms") if is_timed else ("ms", "spread")
    share = ("of bound",) if roof else ()
    table = new_table(
        *("line", "x", "layer", "direction", "solver", *times, "GFLOP/s", "GB/s", *share),
        *("error", "from"),
        right=("line", "x", *set(times) - {"spread"}, "GFLOP/s", "GB/s", "of bound", "error"),
    )
    for result in results:
        problem, best, ms = result.layer.problem, result.best, result.time_ms
        reached = _share(result, roof)
        table.add_row(
            str(result.layer.line_number),
            str(result.layer.count),
            _layer_text(problem),
            problem.direction.short,
            best.solver if best else "-",
            *(_run_times(result) if is_timed else _found_times(result)),
            f"{gflops(problem.flops, ms):.1f}" if ms else "-",
            f"{gigabytes(problem.traffic, ms):.1f}" if ms else "-",
            *(("-" if reached is None else f"{reached:.0%}",) if roof else ()),
            format_error(best.error) if best else "-",
            result.find.origin.value if result.find else "-",
        )
    return table


def _run_times(result: LayerResult) -> tuple[str, ...]:
    timing = result.timing
    if timing is None:
        return "-", "-", "-"
    return tuple(map(format_ms, (timing.least, timing.median, max(timing.samples))))


def _found_times(result: LayerResult) -> tuple[str, ...]:
    best, ms = result.best, result.time_ms
    spread = format_spread(ms, best.spread, best.samples) if best else "-"
    return format_ms(ms) if ms else "-", spread


def _share(result: LayerResult, roof: Roof | None) -> float | None:
    if roof is None or not result.time_ms:
        return None
    return roof.bound_ms(result.layer.problem) / result.time_ms


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
