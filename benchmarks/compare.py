"""This project against other libraries on the same device, layer by layer, interleaved."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import convfind
from convfind.cli.problem_options import directions_of
from convfind.device.target import DeviceKind
from convfind.errors import NoSolverError
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.problem.text import Layer, read_layer_file
from convfind.types import Direction
from epilogue_cost import Cost, costs_of, report
from interleaved import prepared, samples_of, timer
from peers.timing import Contestant


@dataclass(frozen=True, slots=True)
class Entry:
    """One contestant's time on one layer."""

    name: str
    bound: bool  # weights given beforehand
    time_ms: float  # median
    best_ms: float
    workspace: int | None = None  # bytes; of ours only


@dataclass(frozen=True, slots=True)
class Row:
    """One layer in one direction."""

    layer: str
    problem: str
    direction: str
    count: int
    gflop: float
    ours: tuple[Entry, ...]
    peers: tuple[Entry, ...]
    ratio: float | None  # of speeds, ours over theirs; the worse of bound and unbound
    arithmetic_share: float | None  # of our best time
    memory_share: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The things that are compared."""

    layouts: tuple[str, ...]
    solvers: tuple[str, ...]  # patterns
    peers: tuple[str, ...]
    threads: int
    rounds: int
    bound: bool
    tune: bool
    dynamic_only: bool
    peak_gflops: float | None
    peak_gbytes: float | None


def compare(handle: Handle, layer: Layer, problem: ConvProblem, plan: Plan) -> Row:
    """Find ours, time everyone in turns, and put them side by side."""
    mine = [(c, w) for layout in plan.layouts for c, w in _ours(handle, problem, layout, plan)]
    workspaces = {contestant.name: workspace for contestant, workspace in mine}
    theirs = list(_peers(handle, problem, plan))
    samples = samples_of([contestant for contestant, _ in mine] + theirs, plan.rounds)
    entries = {
        contestant.name: Entry(
            contestant.name,
            contestant.bound,
            statistics.median(times),
            min(times),
            workspaces.get(contestant.name),
        )
        for contestant, times in samples
    }
    ours = tuple(entries[contestant.name] for contestant, _ in mine)
    others = tuple(entries[contestant.name] for contestant in theirs)
    best = min((entry.time_ms for entry in ours), default=None)
    arithmetic = problem.flops / plan.peak_gflops / 1e6 if plan.peak_gflops else None
    memory = problem.traffic / plan.peak_gbytes / 1e6 if plan.peak_gbytes else None
    return Row(
        layer=_text(problem),
        problem=problem.key,
        direction=problem.direction.short,
        count=layer.count,
        gflop=problem.flops / 1e9,
        ours=ours,
        peers=others,
        ratio=_ratio(ours, others),
        arithmetic_share=arithmetic / best if arithmetic and best else None,
        memory_share=memory / best if memory and best else None,
    )


def _ours(
    handle: Handle, problem: ConvProblem, layout: str, plan: Plan
) -> Iterator[tuple[Contestant, int]]:
    """Yield the fastest verified solution in a layout, unbound and, if asked for, bound."""
    found = convfind.Layout.of(len(problem.filter), channels_last=layout.endswith("C"))
    problem = replace(problem, x_layout=found, w_layout=found, y_layout=found)
    policy = _policy(handle, plan)
    reads_weights = "w" in problem.direction.reads
    for bound in (False, True) if plan.bound and reads_weights else (False,):
        try:
            best = handle.find(problem, mode="NORMAL", constant_weights=bound, **policy).best
        except NoSolverError:
            continue
        convolution, run_args = prepared(handle, problem, best, bound=bound)
        name = f"{best.solver} {layout}{' bound' if bound else ''}"
        yield (
            Contestant(name, bound, timer(handle, convolution, run_args)),
            convolution.workspace_size,
        )


def _policy(handle: Handle, plan: Plan) -> dict[str, Any]:
    policy: dict[str, Any] = {"tune": plan.tune, "dynamic_only": plan.dynamic_only}
    if plan.solvers:
        ids = [solver.solver_id for solver in handle.registry.solvers]
        policy["solvers"] = [i for i in ids if any(fnmatch(i, pattern) for pattern in plan.solvers)]
    return policy


def _peers(handle: Handle, problem: ConvProblem, plan: Plan) -> Iterator[Contestant]:
    gpu = handle.target.kind is not DeviceKind.CPU
    if "pytorch" in plan.peers:
        from peers import pytorch

        yield from pytorch.contestants(problem, None if gpu else plan.threads)
    if "onnxruntime" in plan.peers and not gpu:
        from peers import onnx_runtime

        yield from onnx_runtime.contestants(problem, plan.threads)


def _ratio(ours: Sequence[Entry], peers: Sequence[Entry]) -> float | None:
    """Compare our better layout with the best peer: bound with bound, unbound with unbound."""
    ratios = []
    for bound in (False, True):
        mine, theirs = _fastest(ours, bound=bound), _fastest(peers, bound=bound)
        if mine and theirs:
            ratios.append(theirs.time_ms / mine.time_ms)
    return min(ratios, default=None)


def _text(problem: ConvProblem) -> str:
    words = ["x".join(map(str, problem.x_shape)), "x".join(map(str, problem.w_shape))]
    if max(problem.stride) > 1:
        words.append("s" + "x".join(map(str, problem.stride)))
    if max(problem.dilation) > 1:
        words.append("d" + "x".join(map(str, problem.dilation)))
    if problem.groups > 1:
        words.append(f"g{problem.groups}")
    return " ".join(words)


def _problems(
    layers: Sequence[Layer], directions: Sequence[Direction], options: dict[str, Any], only: str
) -> Iterator[tuple[Layer, ConvProblem]]:
    """Yield each different layer once in each direction; transposed ones as what they compute."""
    for direction in directions:
        seen = set()
        for layer in layers:
            problem = replace(layer.problem.with_direction(direction), **options).plain()
            if problem.key not in seen and fnmatch(_text(problem), f"*{only}*"):
                seen.add(problem.key)
                yield layer, problem


def table_of(rows: Sequence[Row], title: str) -> Table:
    """Return our best and the best peer of each layer; rates in GFLOP/s of the direct formula."""
    table = Table(title=title)
    for heading in ("layer", "direction", "GFLOP/s", "ours", "MB", "peer's", "peer", "ratio"):
        is_number = heading in ("GFLOP/s", "MB", "peer's", "ratio")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        for bound in (False, True):
            ours, peer = (_fastest(side, bound=bound) for side in (row.ours, row.peers))
            if ours is None and (peer is None or bound):
                continue
            table.add_row(
                row.layer,
                row.direction,
                f"{row.gflop / ours.time_ms * 1e3:,.0f}" if ours else "",
                ours.name if ours else "none",
                f"{ours.workspace / 1e6:.1f}" if ours and ours.workspace else "",
                f"{row.gflop / peer.time_ms * 1e3:,.0f}" if peer else "",
                peer.name if peer else "",
                f"{peer.time_ms / ours.time_ms:.2f}" if ours and peer else "",
            )
    return table


def _fastest(entries: Sequence[Entry], *, bound: bool) -> Entry | None:
    of_kind = [entry for entry in entries if entry.bound is bound]
    return min(of_kind, key=lambda entry: entry.time_ms, default=None)


def summary(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return the geometric mean, the worst ratio and the count of layers, by direction."""
    by_direction: dict[str, list[float]] = {}
    for row in rows:
        if row.ratio is not None:
            by_direction.setdefault(row.direction, []).append(row.ratio)
    return {
        direction: {
            "layers": len(ratios),
            "geometric_mean": statistics.geometric_mean(ratios),
            "worst": min(ratios),
        }
        for direction, ratios in by_direction.items()
    }


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-n", "batch", type=int, help="Batch size instead of the file's.")
@click.option("--direction", "directions", default="fwd", show_default=True, help="fwd,bwd-data,..")
@click.option("--device", default="opencl:cpu", show_default=True)
@click.option("--threads", default=2, show_default=True, help="Cores that everyone is pinned to.")
@click.option("--dtype", default="float32", show_default=True)
@click.option("--allow-tf32", is_flag=True, help="On both sides.")
@click.option("--layouts", default="NCHW,NHWC", show_default=True, help="The better one counts.")
@click.option("--solvers", default="", help="Patterns of our solvers' ids, such as igemm-gpu-*.")
@click.option("--peers", default="pytorch,onnxruntime", show_default=True)
@click.option("--bound", is_flag=True, help="Also with constant weights, against packing peers.")
@click.option("--tune", is_flag=True, help="Tune ours; takes long.")
@click.option("--dynamic-only", is_flag=True, help="Ours: solvers whose binaries serve all sizes.")
@click.option("--only", default="", help="A part of the layer's text, such as 3x3.")
@click.option("--rounds", default=11, show_default=True)
@click.option("--time-limit", type=float, help="Begin no layer after so many seconds.")
@click.option("--peak-gflops", type=float, help="Arithmetic bound, for the shares.")
@click.option("--peak-gbytes", type=float, help="Memory bound in GB/s.")
@click.option("--epilogue", help="Ours fused against ours plain: bias+relu, bias+add+relu, ..")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(
    file: Path,
    batch: int | None,
    directions: str,
    device: str,
    threads: int,
    dtype: str,
    allow_tf32: bool,
    layouts: str,
    only: str,
    time_limit: float | None,
    epilogue: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare on the layers of FILE: medians, everyone in turns, ours verified by the find."""
    if device.endswith("cpu"):
        # Before any runtime starts its threads.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        os.environ["OMP_NUM_THREADS"] = str(threads)
    plan = Plan(
        layouts=tuple(layouts.split(",")),
        solvers=tuple(filter(None, options.pop("solvers").split(","))),
        peers=tuple(filter(None, options.pop("peers").split(","))),
        threads=threads,
        **options,
    )
    kind = convfind.DataType(dtype)
    changes = {"dtype": kind, "y_dtype": kind, "allow_tf32": allow_tf32}
    wanted = [d for text in directions.split(",") for d in directions_of(text)]
    layers = read_layer_file(file)
    if batch is not None:
        layers = tuple(replace(layer, problem=layer.problem.with_batch(batch)) for layer in layers)
    problems = list(_problems(layers, wanted, changes, only))
    rows: list[Row] = []
    costs: list[Cost] = []
    started = time.monotonic()
    with (
        convfind.open(device) as handle,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        for layer, problem in progress.track(problems):
            if time_limit is not None and time.monotonic() - started > time_limit:
                break
            if epilogue is None:
                rows.append(compare(handle, layer, problem, plan))
                continue
            policy = {"constant_weights": plan.bound, **_policy(handle, plan)}
            how: dict[str, Any] = {"rounds": plan.rounds, "policy": policy}
            costs += costs_of(handle, layer, problem, epilogue, plan.layouts, **how)
        title = f"{handle.target.name}, {handle.target.platform}, {handle.target.driver}"
    if epilogue is not None:
        report(costs, f"{title}, {dtype}, {epilogue}", as_json=as_json)
        return
    if as_json:
        document = {
            "device": title,
            "rows": [asdict(row) for row in rows],
            "summary": summary(rows),
        }
        click.echo(json.dumps(document, indent=2))
        return
    Console(width=180).print(table_of(rows, title))
    for direction, figures in summary(rows).items():
        click.echo(
            f"{direction}: geometric mean {figures['geometric_mean']:.2f}, worst"
            f" {figures['worst']:.2f}, of {figures['layers']} layers"
        )


if __name__ == "__main__":
    main()
