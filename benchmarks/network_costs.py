"""What networks on a CPU cost beside their time: memory at the most, compiling, saving, loading.

    python benchmarks/network_costs.py resnet50 --batch 4

Each figure is of a process of its own; memory is what that has had resident at the most. A plan
is compiled from records: the first process finds, and none of its figures are shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

_RUNS = 5
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Given:
    """A model, a place for its plan, and the input."""

    model: Path
    plan: Path
    shape: tuple[int, ...]
    threads: int

    @property
    def x(self) -> np.ndarray[Any, Any]:
        """Random numbers."""
        return np.random.default_rng(0).standard_normal(self.shape, dtype=np.float32)


def compiled(given: Given, x: np.ndarray[Any, Any]) -> dict[str, float]:
    """Compile a plan, run it, and save it."""
    import convfind
    from convfind_networks import Network

    handle = convfind.open("opencl:cpu")
    read = time.perf_counter()
    network = Network.from_onnx(given.model)
    began = time.perf_counter()
    plan = network.compile(handle)
    done = time.perf_counter()
    _run(lambda: plan.run({network.inputs[0].name: x}))
    saving = time.perf_counter()
    plan.save(given.plan)
    return {"read": began - read, "compile": done - began, "save": time.perf_counter() - saving}


def loaded(given: Given, x: np.ndarray[Any, Any]) -> dict[str, float]:
    """Load the saved plan, and run it."""
    import convfind
    from convfind_networks import Plan

    handle = convfind.open("opencl:cpu")
    began = time.perf_counter()
    with given.plan.open("rb") as file:
        while file.read(1 << 20):  # in pieces, which take no memory
            pass
    read = time.perf_counter()
    plan = Plan.load(given.plan, handle)
    done = time.perf_counter()
    _run(lambda: plan.run({plan.inputs[0].name: x}))
    return {"load": done - read, "reading the file alone": read - began}


def onnx_runtime(given: Given, x: np.ndarray[Any, Any]) -> dict[str, float]:
    """Make a session of ONNX Runtime, and run it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = given.threads
    began = time.perf_counter()
    session = onnxruntime.InferenceSession(
        str(given.model), options, providers=["CPUExecutionProvider"]
    )
    done = time.perf_counter()
    name = session.get_inputs()[0].name
    _run(lambda: session.run(None, {name: x}))
    return {"session": done - began}


PARTS: dict[str, Callable[[Given, np.ndarray[Any, Any]], dict[str, float]]] = {
    "compiled": compiled,
    "loaded": loaded,
    "onnx_runtime": onnx_runtime,
}


def _run(run: Callable[[], object]) -> None:
    for _ in range(_RUNS):
        run()


def _peak() -> float:
    """Return the MB that this process has had resident at the most.

    Not by ``getrusage``, which counts the memory of the parent before the program was loaded.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _part(name: str, words: dict[str, Any]) -> None:
    """Do one part in this process, and print its figures."""
    model, plan, shape = Path(words["model"]), Path(words["plan"]), tuple(words["shape"])
    given = Given(model, plan, shape, words["threads"])
    figures = PARTS[name](given, given.x)
    print(json.dumps({**figures, "memory": _peak()}))


@click.command(help=__doc__)
@click.argument("network", default="resnet50")
@click.option("--batch", default=4, show_default=True)
@click.option("--threads", default=2, show_default=True, help="Of ONNX Runtime.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--part", type=click.Choice(list(PARTS)), hidden=True)
@click.option("--words", hidden=True)
def main(
    network: str, batch: int, threads: int, as_json: bool, part: str | None, words: str | None
) -> None:
    """Measure in processes of their own, and print a table."""
    if part is not None and words is not None:
        return _part(part, json.loads(words))
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        shape = _write(network, batch, model)
        given = {"model": str(model), "plan": f"{folder}/plan", "shape": shape, "threads": threads}
        figures = {}
        for name in ("compiled", *PARTS):  # the first one finds
            command = [sys.executable, __file__, "--part", name, "--words", json.dumps(given)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            figures[name] = json.loads(done.stdout.splitlines()[-1])
    if as_json:
        print(json.dumps({"network": network, "batch": batch, **figures}))
        return None
    table = Table("", "figure", "", title=f"{network}, batch {batch}")
    for name, row in figures.items():
        for figure, value in row.items():
            unit = "MB" if figure == "memory" else "s"
            table.add_row(name, figure, f"{value:.2f} {unit}")
    Console().print(table)
    return None


def _write(name: str, batch: int, path: Path) -> tuple[int, ...]:
    """Write a network as an ONNX model with random weights; return the shape of its input."""
    from models import MODELS
    from peers import onnx_network

    if name in MODELS:
        model = MODELS[name](batch)
        dims = model.graph.input[0].type.tensor_type.shape.dim
        shape = tuple(dim.dim_value for dim in dims)
    else:
        sys.path.append(str(_HERE.parent / "packages/networks/tests"))
        import networks_for_tests as networks
        import torch

        from convfind_networks import Network

        shape = (batch, 3, 224, 224)
        exported = networks.exported(getattr(networks, name)(), torch.randn(shape))
        model = onnx_network.model_of(Network.from_torch(exported, name=name).graph())
    path.write_bytes(model.SerializeToString())
    return shape


if __name__ == "__main__":
    main()
