"""Whole networks on a CPU: convfind's plans against others, interleaved.

Weights are random. Everyone runs the same network on the same input, batch norms folded by
whoever folds them, with inputs and outputs in the host's memory, in a process of their own. Those
of `models` are ONNX models, which PyTorch does not run.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import convfind
from convfind.cli.progress import ProgressBar
from convfind_networks import Network
from models import MODELS
from peers.apart import Apart
from peers.timing import Contestant, host_timer

sys.path.append(str(Path(__file__).parents[1] / "packages/networks/tests"))

Array = np.ndarray[Any, Any]

_ALL = ("resnet50", "vgg16", "mobilenet_v2", *MODELS)

#: Largest difference from the results to expect, as a part of the largest of them.
_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Row:
    """One network at one batch size."""

    network: str
    batch: int
    ours_ms: float  # median, or the fastest if asked
    tasks_ms: float  # the sum of the plan's tasks, each timed by itself, in the same rounds
    compile_s: float
    arena_mb: float
    constants_mb: float
    peers_ms: dict[str, float]
    ratio: float | None  # of speeds, ours over the best peer's
    error: float  # largest difference from a peer's result, as a part of the largest
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """The figures of our plan beside its times."""

    compile_s: float
    arena: int
    constants: int
    result: Array
    notes: tuple[str, ...]


def _network(name: str, batch: int) -> tuple[Network, Array, Any, Any]:
    """Return a network and its input; and the ONNX model, or the module, that it was read from."""
    if name in MODELS:
        model = MODELS[name](batch)
        network = Network.from_onnx(model)
        shape = network.graph().values[network.inputs[0].name].shape
        x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        return network, _aligned(x), model, None
    import networks_for_tests as networks
    import torch

    torch.manual_seed(0)  # the same weights in every process
    module = getattr(networks, name)()
    given = torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    network = Network.from_torch(networks.exported(module, given), name=name)
    return network, _aligned(given.numpy()), None, module


def _ours(
    device: str, name: str, batch: int, options: dict[str, Any]
) -> tuple[list[Contestant], Facts]:
    """Compile our plan, which takes two turns: as a whole, and task by task."""
    handle = convfind.open(device)
    network, x, *_ = _network(name, batch)
    began = time.perf_counter()
    with ProgressBar() as progress:
        plan = network.compile(
            handle,
            mode=options["mode"],
            time_budget=options["budget"],
            rehearse=options["rehearse"],
            on_progress=progress,
        )
    compiled = time.perf_counter() - began
    inputs = {network.inputs[0].name: x}
    (output,) = (port.name for port in plan.outputs)
    if options["profile"]:
        Console(stderr=True, width=240).print(plan.profile(inputs))
    contestants = [
        Contestant("convfind", True, host_timer(lambda: plan.run(inputs)), spin_s=0.0),
        # The tasks take their turns, too: hosts are faster in one minute than in the next.
        Contestant(
            "tasks", True, lambda calls: plan.profile(inputs, rounds=calls).sum_ms, spin_s=0.0
        ),
    ]
    schedule = plan.schedule
    result = plan.run(inputs)[output]
    return contestants, Facts(compiled, schedule.arena, schedule.constants, result, schedule.notes)


def _peer(name: str, batch: int, threads: int, peer: str) -> tuple[list[Contestant], Array]:
    """Make one of the others, none if its name is empty; and the result to expect."""
    from peers import onnx_network

    network, x, model, module = _network(name, batch)
    if module is None:
        expected = onnx_network.result_of(onnx_network.session_of(model, threads), x)
        return [*_of_onnx_peers(model, x, threads, peer)], expected
    import torch

    from peers import torch_network

    torch.set_num_threads(threads)
    given = torch.from_numpy(x)
    expected = torch_network.result_of(module, given)
    made = _of_onnx_peers(onnx_network.model_of(network.graph()), x, threads, peer)
    return [*made, *torch_network.contestants(module, given, [peer])], expected


def _of_onnx_peers(model: Any, x: Array, threads: int, peer: str) -> Iterator[Contestant]:
    """Yield a peer that runs ONNX models."""
    if peer == "onnxruntime":
        from peers import onnx_network

        yield onnx_network.contestant(onnx_network.session_of(model, threads), x)
    if peer == "openvino":
        from peers import openvino_network

        yield openvino_network.contestant(model, threads, x)


def _compare(device: str, name: str, batch: int, options: dict[str, Any]) -> Row:
    """Time ours and all others, each in a process of its own."""
    with ExitStack() as stack:
        ours = stack.enter_context(closing(Apart(_ours, device, name, batch, options)))
        wanted = options["peers"].split(",")
        made = [(name, batch, options["threads"], peer) for peer in wanted]
        peers = [stack.enter_context(closing(Apart(_peer, *one))) for one in made]
        facts, expected = ours.facts, peers[0].facts
        error = float(np.abs(facts.result - expected).max() / np.abs(expected).max())
        if not error < _TOLERANCE:
            msg = f"{name} at batch {batch}: off by {error:.2g} of the largest"
            raise click.ClickException(msg)
        summary = min if options["fastest"] else statistics.median
        contestants = [one for seat in (ours, *peers) for one in seat.contestants]
        times = _times(contestants, options["rounds"], summary)
    ours_ms, tasks_ms = (times.pop(one.name) for one in ours.contestants)
    return Row(
        network=name,
        batch=batch,
        ours_ms=ours_ms,
        tasks_ms=tasks_ms,
        compile_s=facts.compile_s,
        arena_mb=facts.arena / 1e6,
        constants_mb=facts.constants / 1e6,
        peers_ms=times,
        ratio=min(times.values()) / ours_ms if times else None,
        error=error,
        notes=facts.notes,
    )


def _aligned(array: Array) -> Array:
    """Return a copy whose memory devices that share the host's can use in place."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    copy = raw[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _times(
    contestants: list[Contestant], rounds: int, summary: Callable[[list[float]], float]
) -> dict[str, float]:
    """Time everyone once a round, after a pause in which the one before stops spinning."""
    samples: dict[str, list[float]] = {one.name: [] for one in contestants}
    for one in contestants:
        one.time_ms(2)
    before = contestants[-1]
    for _ in range(rounds):
        for one in contestants:
            time.sleep(before.spin_s)
            before = one
            one.time_ms(1)
            samples[one.name].append(one.time_ms(2))
    return {name: summary(times) for name, times in samples.items()}


def table_of(rows: list[Row], title: str) -> Table:
    """Return ours and everyone else's times, in ms."""
    peers = list(dict.fromkeys(name for row in rows for name in row.peers_ms))
    table = Table(title=title)
    table.add_column("network")
    for heading in ("batch", "convfind", "its tasks", *peers, "ratio", "compile s", "MB"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.network,
            str(row.batch),
            f"{row.ours_ms:.2f}",
            f"{row.tasks_ms:.2f}",
            *(f"{row.peers_ms[name]:.2f}" if name in row.peers_ms else "" for name in peers),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            f"{row.compile_s:.1f}",
            f"{row.arena_mb:.0f} + {row.constants_mb:.0f}",
        )
    return table


@click.command()
@click.option(
    "--networks", default="resnet50,vgg16,mobilenet_v2", show_default=True,
    help=f"Also {', '.join(MODELS)}; all for all.",
)  # fmt: skip
@click.option("--batches", default="1,4,16", show_default=True)
@click.option("--threads", default=2, show_default=True, help="Cores that everyone is pinned to.")
@click.option(
    "--peers", default="onnxruntime,torch", show_default=True,
    help="Also openvino, torch-compile.",
)  # fmt: skip
@click.option("--rounds", default=11, show_default=True)
@click.option("--fastest", is_flag=True, help="Not medians: of a machine that others use.")
@click.option("--mode", default=None, help="Of the finds.")
@click.option("--budget", type=float, help="Seconds of finds for each network and batch size.")
@click.option("--rehearse", is_flag=True, help="Choose among finalists within runs of the network.")
@click.option("--device", default="opencl:cpu", show_default=True)
@click.option("--profile", is_flag=True, help="Show every task of ours on standard error.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(
    networks: str, batches: str, device: str, profile: bool, as_json: bool, **options: Any
) -> None:
    """Compare whole networks: everyone in turns, results held to a peer's."""
    # Before any runtime starts its threads.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options["threads"] :])
    os.environ["OMP_NUM_THREADS"] = str(options["threads"])
    with convfind.open(device) as handle:
        title = f"{handle.target.name}, {handle.target.platform}, {handle.target.driver}"
    rows = [
        _compare(device, name, int(batch), {**options, "profile": profile})
        for name in (_ALL if networks == "all" else networks.split(","))
        for batch in batches.split(",")
    ]
    ratios = [row.ratio for row in rows if row.ratio is not None]
    mean = statistics.geometric_mean(ratios) if ratios else None
    if as_json:
        document = {"device": title, "rows": [asdict(row) for row in rows], "geometric_mean": mean}
        click.echo(json.dumps(document, indent=2))
        return
    Console(width=180).print(table_of(rows, title))
    for row in rows:
        for note in row.notes:
            click.echo(f"{row.network} at batch {row.batch}: {note}")
    if mean is not None:
        click.echo(f"geometric mean of the ratios: {mean:.2f}")


if __name__ == "__main__":
    main()
