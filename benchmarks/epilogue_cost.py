"""The cost of an epilogue: each layer fused and plain, both as a find has them, interleaved.

A ratio is the time of the fused convolution over that of the plain one; where a tensor is added,
over that of the plain one and of reading the tensor as fast as a copy of it is read.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import convfind
from convfind.cli.epilogue_options import read_epilogue
from convfind.handle import Handle
from convfind.kit.composed import Composed
from convfind.problem import ConvProblem
from convfind.problem.text import Layer
from convfind.runtime.backend import InvokeArgs
from interleaved import prepared, samples_of, timer
from peers.timing import Contestant


@dataclass(frozen=True, slots=True)
class Cost:
    """One layer in one layout: medians in ms, and the median of the rounds' ratios."""

    problem: str  # the fused one's key
    layout: str
    direction: str
    count: int
    plain: str  # solver
    plain_ms: float
    fused: str  # solver
    fused_ms: float
    read_ms: float  # of the added tensor, at the speed of a copy
    ratio: float

    @property
    def is_inside(self) -> bool:
        """Whether the epilogue is in the solver's own kernels."""
        return Composed.suffix not in self.fused


def costs_of(
    handle: Handle,
    layer: Layer,
    problem: ConvProblem,
    steps: str,
    layouts: Sequence[str],
    *,
    rounds: int,
    policy: dict[str, Any],
) -> Iterator[Cost]:
    """Find both, time them in turns, and yield what the epilogue costs, in each layout."""
    for layout in layouts:
        lies = convfind.Layout.of(problem.spatial_rank, channels_last=layout.endswith("C"))
        plain = replace(problem, x_layout=lies, w_layout=lies, y_layout=lies)
        fused = plain.with_epilogue(**read_epilogue(steps))
        bound = policy.get("constant_weights", False)
        found = [handle.find(one, mode="NORMAL", **policy).best for one in (plain, fused)]
        contestants = []
        for name, one, best in zip(("plain", "fused"), (plain, fused), found, strict=True):
            convolution, args = prepared(handle, one, best, bound=bound)
            contestants.append(Contestant(name, bound, timer(handle, convolution, args)))
        if fused.adds_z:
            contestants.append(Contestant("copy", bound, _copy(handle, fused)))
        times = {one.name: samples for one, samples in samples_of(contestants, rounds)}
        reads = [one / 2 for one in times.get("copy", [0.0] * rounds)]
        rows = zip(times["plain"], times["fused"], reads, strict=True)
        yield Cost(
            *(fused.key, layout, problem.direction.short, layer.count),
            *(found[0].solver, statistics.median(times["plain"])),
            *(found[1].solver, statistics.median(times["fused"])),
            read_ms=statistics.median(reads),
            ratio=statistics.median(after / (before + read) for before, after, read in rows),
        )


def _copy(handle: Handle, problem: ConvProblem) -> Any:
    """Time a copy of what is added, which reads as much as it writes."""
    from convfind_operators import CopyProblem, ElementType

    spec = problem.operand("z")
    copied = CopyProblem(x=(spec.elements,), dtype=ElementType(spec.dtype.value))
    convolution = handle.prepare(handle.find(copied).best)
    device = handle.session.device
    memory = {name: device.allocate(spec.nbytes) for name in ("x", "y")}
    return timer(handle, convolution, InvokeArgs(**memory))


def summary_of(costs: Sequence[Cost]) -> dict[str, dict[str, float]]:
    """Return the geometric mean and the largest ratio, by layout."""
    by_layout: dict[str, list[Cost]] = {}
    for cost in costs:
        by_layout.setdefault(cost.layout, []).append(cost)
    return {
        layout: {
            "layers": len(some),
            "inside": sum(cost.is_inside for cost in some),
            "geometric_mean": statistics.geometric_mean(cost.ratio for cost in some),
            "largest": max(cost.ratio for cost in some),
        }
        for layout, some in by_layout.items()
    }


def report(costs: Sequence[Cost], title: str, *, as_json: bool) -> None:
    """Print a table, or JSON."""
    summary = summary_of(costs)
    if as_json:
        rows = [asdict(cost) for cost in costs]
        click.echo(json.dumps({"device": title, "rows": rows, "summary": summary}, indent=1))
        return
    table = Table(title=title)
    for heading in ("problem", "plain ms", "solver", "fused ms", "solver", "z ms", "ratio"):
        is_number = heading.endswith(("ms", "ratio"))
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for cost in costs:
        table.add_row(
            *(cost.problem, f"{cost.plain_ms:.4f}", cost.plain, f"{cost.fused_ms:.4f}", cost.fused),
            *(f"{cost.read_ms:.4f}" if cost.read_ms else "", f"{cost.ratio:.3f}"),
        )
    Console(width=220).print(table)
    for layout, figures in summary.items():
        click.echo(
            f"{layout}: geometric mean {figures['geometric_mean']:.3f}, largest "
            f"{figures['largest']:.3f}, inside in {figures['inside']:.0f} of "
            f"{figures['layers']:.0f} layers"
        )
