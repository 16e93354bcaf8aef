"""``convfind network bench``: a network against other runtimes, in turns."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from convfind.cli.app import App, Command, new_table
from convfind_networks.cli.plan_options import PlanSource, takes_plan
from convfind_networks.plan.profile import random_inputs

Inputs = Mapping[str, np.ndarray[Any, Any]]

#: Peers' threads spin after a call, and would take a core from whoever comes next.
_PAUSE_S = 0.1


@click.command(cls=Command)
@takes_plan
@click.option("--rounds", type=click.IntRange(min=1), default=11, help="Of everyone.  [11]")
@click.option(
    "--against", "peers", default="", metavar="NAME,...",
    help="onnxruntime, openvino (ONNX models) and torch (*.pt2), where they are installed.",
)  # fmt: skip
def bench(app: App, source: PlanSource, rounds: int, peers: str) -> None:
    """Time whole runs of MODEL, copies of inputs and outputs included.

    All runtimes get the same number of threads, each in a process of its own, and run in turns,
    with a pause in between.

    \b
    Examples:
      convfind network bench resnet50.onnx --set batch=4 --against onnxruntime,openvino
      convfind network bench resnet50.pt2 --against torch --json
    """
    names = [name for name in dict.fromkeys(peers.split(",")) if name]
    for name in names:
        _check(name, source.path)
    with ExitStack() as stack:
        plan = stack.enter_context(source.opened())
        inputs = random_inputs(plan)
        threads = plan.handle.target.compute_units or os.cpu_count() or 1
        timers: dict[str, Callable[[], float]] = {
            "convfind": lambda: _timed(lambda: plan.run(inputs))
        }
        for name in names:
            timers[name] = stack.enter_context(_apart(name, source.path, inputs, threads))
        for time_ms in timers.values():  # first runs are slower
            time_ms()
            time_ms()
        samples: dict[str, list[float]] = {name: [] for name in timers}
        for _ in range(rounds):
            for name, time_ms in timers.items():
                time.sleep(_PAUSE_S)
                samples[name].append(time_ms())
        network, device, flops = plan.schedule.network, plan.schedule.device, plan.schedule.flops
    medians = {name: statistics.median(times) for name, times in samples.items()}
    best = min((ms for name, ms in medians.items() if name != "convfind"), default=None)
    ratio = None if best is None else best / medians["convfind"]
    if app.json:
        app.emit(
            {
                "network": network,
                "device": device,
                "gflop": flops / 1e9,
                "runs": [
                    {"name": name, "median_ms": medians[name], "best_ms": min(times)}
                    for name, times in samples.items()
                ],
                "ratio": ratio,
            }
        )
        return
    table = new_table("runtime", "median ms", "best ms", "GFLOP/s", right=_NUMBERS)
    for name, times in samples.items():
        speed = f"{flops / medians[name] / 1e6:,.1f}"
        table.add_row(name, f"{medians[name]:.3f}", f"{min(times):.3f}", speed)
    app.print(f"network  {network}", f"device   {device}", table)
    if ratio is not None:
        app.print(f"{ratio:.2f} times as fast as the best of the others")


_NUMBERS = ("median ms", "best ms", "GFLOP/s")


def _check(name: str, path: Path) -> None:
    """Raise `click.BadParameter` for a peer that is none, or that does not run such models."""
    if name not in _PEERS:
        raise click.BadParameter(f"{name!r} is none of {', '.join(_PEERS)}", param_hint="--against")
    suffix, _ = _PEERS[name]
    if path.suffix != suffix:
        what = f"{name} runs {suffix}, not {path.name}"
        raise click.BadParameter(what, param_hint="--against")


@contextmanager
def _apart(name: str, path: Path, inputs: Inputs, threads: int) -> Iterator[Callable[[], float]]:
    """Make a peer in a process of its own, where no other's threads and libraries are."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:

        def ask(function: Callable[..., Any], *arguments: object) -> Any:
            try:
                return process.submit(function, *arguments).result()
            except BrokenExecutor:
                raise click.ClickException(f"the process of {name} ended") from None

        ask(_make, name, path, dict(inputs), threads)
        yield lambda: ask(_time_ms)


#: The runner of the network, in the process of a peer.
_runs: list[Callable[[], object]] = []


def _make(name: str, path: Path, inputs: Inputs, threads: int) -> None:
    _, make = _PEERS[name]
    _runs.append(make(path, inputs, threads))


def _time_ms() -> float:
    return _timed(*_runs)


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def _onnxruntime(path: Path, inputs: Inputs, threads: int) -> Callable[[], object]:
    onnxruntime = _installed("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(inputs))


def _openvino(path: Path, inputs: Inputs, threads: int) -> Callable[[], object]:
    openvino = _installed("openvino")
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads})
    read = core.read_model(str(path))
    read.reshape({name: list(array.shape) for name, array in inputs.items()})
    # The precision of the model, where OpenVINO would take the fastest that the CPU has.
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(read, "CPU", options).create_infer_request()
    return lambda: request.infer(dict(inputs))


def _torch(path: Path, inputs: Inputs, threads: int) -> Callable[[], object]:
    from convfind_networks.from_torch.reading import runner_of

    return runner_of(path, list(inputs.values()), threads)


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        message = f"{name} is not installed: python -m pip install {name}"
        raise click.ClickException(message) from None


#: Who runs which files.
_PEERS: dict[str, tuple[str, Callable[[Path, Inputs, int], Callable[[], object]]]] = {
    "onnxruntime": (".onnx", _onnxruntime),
    "openvino": (".onnx", _openvino),
    "torch": (".pt2", _torch),
}
