"""``convfind network bench``: a network against other runtimes, in turns."""

from __future__ import annotations

import importlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from convfind.cli.app import App, Command, new_table
from convfind_networks.cli.plan_options import PLAN_SUFFIX, PlanSource, takes_plan
from convfind_networks.plan.profile import random_inputs

Inputs = Mapping[str, np.ndarray[Any, Any]]

#: Peers' threads spin after a call, and would take a core from whoever comes next.
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Contestant:
    """A runner of the network; its samples in ms are added as it runs."""

    name: str
    run: Callable[[], object]
    samples: list[float]


@click.command(cls=Command)
@takes_plan
@click.option("--rounds", type=click.IntRange(min=1), default=11, help="Of everyone.  [11]")
@click.option(
    "--against", "peers", default="", metavar="NAME,...",
    help="onnxruntime, openvino (ONNX models) and torch (*.pt2), where they are installed.",
)  # fmt: skip
def bench(app: App, source: PlanSource, rounds: int, peers: str) -> None:
    """Time whole runs of MODEL, copies of inputs and outputs included.

    All runtimes get the same number of threads and run in turns, with a pause in between.

    \b
    Examples:
      convfind network bench resnet50.onnx --set batch=4 --against onnxruntime,openvino
      convfind network bench resnet50.pt2 --against torch --json
    """
    names = [name for name in peers.split(",") if name]
    makers = [_maker(name, source.path) for name in names]
    with source.opened() as plan:
        inputs = random_inputs(plan)
        threads = plan.handle.target.compute_units or os.cpu_count() or 1
        contestants = [Contestant("convfind", lambda: plan.run(inputs), [])]
        for make in makers:
            contestants.extend(make(source.path, inputs, threads))
        for one in contestants:
            one.run()
            one.run()
        for _ in range(rounds):
            for one in contestants:
                time.sleep(_PAUSE_S)
                began = time.perf_counter()
                one.run()
                one.samples.append((time.perf_counter() - began) * 1e3)
        network, device, flops = plan.schedule.network, plan.schedule.device, plan.schedule.flops
    medians = {one.name: statistics.median(one.samples) for one in contestants}
    best = min((ms for name, ms in medians.items() if name != "convfind"), default=None)
    ratio = None if best is None else best / medians["convfind"]
    if app.json:
        app.emit(
            {
                "network": network,
                "device": device,
                "gflop": flops / 1e9,
                "runs": [
                    {"name": one.name, "median_ms": medians[one.name], "best_ms": min(one.samples)}
                    for one in contestants
                ],
                "ratio": ratio,
            }
        )
        return
    table = new_table("runtime", "median ms", "best ms", "GFLOP/s", right=_NUMBERS)
    for one in contestants:
        median = medians[one.name]
        speed = f"{flops / median / 1e6:,.1f}"
        table.add_row(one.name, f"{median:.3f}", f"{min(one.samples):.3f}", speed)
    app.print(f"network  {network}", f"device   {device}", table)
    if ratio is not None:
        app.print(f"{ratio:.2f} times as fast as the best of the others")


_NUMBERS = ("median ms", "best ms", "GFLOP/s")
_Make = Callable[[Path, Inputs, int], Iterator[Contestant]]


def _maker(name: str, path: Path) -> _Make:
    """Return what makes a peer. Raises `click.BadParameter` where there is none for the model."""
    suffixes, make = _PEERS.get(name, ((), None))
    if make is None:
        raise click.BadParameter(f"{name!r} is none of {', '.join(_PEERS)}", param_hint="--against")
    if path.suffix not in suffixes or path.suffix == PLAN_SUFFIX:
        what = f"{name} runs {' and '.join(suffixes)}, not {path.name}"
        raise click.BadParameter(what, param_hint="--against")
    return make


def _onnxruntime(path: Path, inputs: Inputs, threads: int) -> Iterator[Contestant]:
    onnxruntime = _installed("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    yield Contestant("onnxruntime", lambda: session.run(None, dict(inputs)), [])


def _openvino(path: Path, inputs: Inputs, threads: int) -> Iterator[Contestant]:
    openvino = _installed("openvino")
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads})
    read = core.read_model(str(path))
    read.reshape({name: list(array.shape) for name, array in inputs.items()})
    # The precision of the model, where OpenVINO would take the fastest that the CPU has.
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(read, "CPU", options).create_infer_request()
    yield Contestant("openvino", lambda: request.infer(dict(inputs)), [])


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        message = f"{name} is not installed: python -m pip install {name}"
        raise click.ClickException(message) from None


def _torch(path: Path, inputs: Inputs, threads: int) -> Iterator[Contestant]:
    from convfind_networks.from_torch.reading import runner_of

    yield Contestant("torch", runner_of(path, list(inputs.values()), threads), [])


_PEERS: dict[str, tuple[tuple[str, ...], _Make]] = {
    "onnxruntime": ((".onnx",), _onnxruntime),
    "openvino": ((".onnx",), _openvino),
    "torch": ((".pt2",), _torch),
}
