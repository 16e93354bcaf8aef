"""Whole networks on an NVIDIA GPU: convfind's plans against PyTorch, eager and compiled, in turns.

``python benchmarks/cuda_networks.py --device cuda:0 -n 64``. Float32 without TF32, random weights,
batch norms folded by whoever folds them. The input lies on the device, and each run ends with the
result in the host's memory, everyone's alike. PyTorch chooses its algorithms by measurement
(``cudnn.benchmark``) and runs in both memory formats.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import convfind
from convfind.cli.progress import ProgressBar
from convfind.handle import Handle
from convfind_networks import Network, Plan

sys.path.append(str(Path(__file__).parents[1] / "packages/networks/tests"))

#: Largest difference from PyTorch's result, as a part of the largest element.
_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Row:
    """One network: medians of a run in ms, of ours also the sum of the tasks on the device."""

    network: str
    batch: int
    ours_ms: float
    tasks_ms: float
    peers_ms: dict[str, float]
    compile_s: float
    error: float
    notes: tuple[str, ...]

    @property
    def speedup(self) -> float:
        """How many times as fast as the best of PyTorch's."""
        return min(self.peers_ms.values()) / self.ours_ms


def _module(name: str) -> Any:
    import networks_for_tests as networks

    return getattr(networks, name)().eval()


def _peers(module: Any, x: Any, *, compiled: bool) -> dict[str, Callable[[], object]]:
    import torch
    from torch.fx.experimental.optimization import fuse

    def run(model: Any, data: Any) -> Callable[[], object]:
        def once() -> object:
            with torch.inference_mode():
                return model(data).cpu()

        return once

    found: dict[str, Callable[[], object]] = {}
    for name, layout in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        folded: Any = fuse(module)
        model = folded.cuda().to(memory_format=layout)
        data = x.cuda().to(memory_format=layout)
        found[f"eager {name}"] = run(model, data)
        if compiled:
            found[f"compiled {name}"] = run(torch.compile(model), data)
    return found


def _compare(handle: Handle, name: str, batch: int, options: dict[str, Any]) -> Row:
    import torch
    from networks_for_tests import exported

    torch.manual_seed(0)
    module = _module(name)
    x = torch.randn(batch, 3, 224, 224)
    network = Network.from_torch(exported(module, x), name=name)
    began = time.perf_counter()
    with ProgressBar() as progress:
        plan = network.compile(handle, time_budget=options["budget"], on_progress=progress)
    compile_s = time.perf_counter() - began
    inputs = {network.inputs[0].name: handle.tensor(x.numpy())}
    (output,) = (port.name for port in plan.outputs)
    runs: dict[str, Callable[[], object]] = {"convfind": lambda: plan.run(inputs)}
    runs |= _peers(module, x, compiled=options["compiled"])
    got = plan.run(inputs)[output]
    expected: Any = runs["eager NCHW"]()
    error = float(np.abs(got - expected.numpy()).max() / expected.abs().max())
    if not error < _TOLERANCE:
        raise click.ClickException(f"{name}: off by {error:.2g} of the largest element")
    medians, tasks_ms = _medians(runs, plan, inputs, options["rounds"])
    return Row(
        network=name,
        batch=batch,
        ours_ms=medians.pop("convfind"),
        tasks_ms=tasks_ms,
        peers_ms=medians,
        compile_s=compile_s,
        error=error,
        notes=plan.schedule.notes,
    )


def _medians(
    runs: dict[str, Callable[[], object]], plan: Plan, inputs: dict[str, Any], rounds: int
) -> tuple[dict[str, float], float]:
    """Time everyone in turns, and the tasks of ours in the same rounds."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    sums: list[float] = []
    for run in runs.values():
        for _ in range(3):
            run()
    for _ in range(rounds):
        for name, run in runs.items():
            run()
            began = time.perf_counter()
            for _ in range(3):
                run()
            samples[name].append((time.perf_counter() - began) / 3 * 1e3)
        sums.append(plan.profile(inputs, rounds=3).sum_ms)
    medians = {name: statistics.median(times) for name, times in samples.items()}
    return medians, statistics.median(sums)


@click.command()
@click.option("--networks", default="resnet50,vgg16,mobilenet_v2", show_default=True)
@click.option("--device", default="cuda:0", show_default=True)
@click.option("-n", "batch", default=64, show_default=True, help="Batch size.")
@click.option("--budget", type=float, help="Seconds of finds for each network.")
@click.option("--rounds", default=9, show_default=True)
@click.option("--compiled", is_flag=True, help="Also torch.compile.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(networks: str, device: str, batch: int, as_json: bool, **options: Any) -> None:
    """Compare whole networks; results are held to PyTorch's."""
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with convfind.open(device) as handle:
        title = f"{handle.target.name}, {handle.target.driver}, PyTorch {torch.__version__}"
        rows = [_compare(handle, name, batch, options) for name in networks.split(",")]
    if as_json:
        click.echo(json.dumps({"device": title, "rows": list(map(asdict, rows))}, indent=2))
        return
    table = Table(title=title)
    table.add_column("network")
    peers = list(rows[0].peers_ms)
    for heading in ("batch", "convfind", "its tasks", *peers, "speed-up", "compile s"):
        table.add_column(heading, justify="right")
    for row in rows:
        times = (row.ours_ms, row.tasks_ms, *(row.peers_ms[name] for name in peers))
        cells = (*(f"{one:.2f}" for one in times), f"{row.speedup:.2f}", f"{row.compile_s:.0f}")
        table.add_row(row.network, str(row.batch), *cells)
    Console(width=180).print(table)
    for row in rows:
        for note in row.notes:
            click.echo(f"{row.network}: {note}")


if __name__ == "__main__":
    main()
