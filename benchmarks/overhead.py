"""The overheads of convfind around the kernels: import, applicability, look-up, find, run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyopencl as cl
from rich.console import Console
from rich.table import Table

import convfind
from convfind.find.screening import screen
from convfind.handle import Handle
from convfind.policy import Policy
from convfind.runtime.backend import InvokeArgs

# Small, so that the device is never the bottleneck of a loop of enqueues.
PROBLEM = convfind.ConvProblem.forward(x=(1, 4, 4, 4), w=(4, 4, 1, 1))
IMPORT = """
import time, numpy
start = time.perf_counter()
import convfind
took = time.perf_counter() - start
import sys
assert "pyopencl" not in sys.modules
print(took * 1e3)
"""


def microseconds(work: Callable[[], object], calls: int = 2000) -> float:
    """Median over rounds of the mean time of one call."""
    rounds = []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        rounds.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(rounds)


def import_ms() -> float:
    """Time of ``import convfind`` in new processes that have imported NumPy; the median."""
    command = [sys.executable, "-c", IMPORT]
    runs = [subprocess.run(command, capture_output=True, check=True) for _ in range(9)]
    return statistics.median(float(run.stdout) for run in runs)


def invoker_us(handle: Handle) -> tuple[float, float]:
    """Cost of an enqueue by a cached invoker, and of pyopencl's own enqueue of the same kernel."""
    found = handle.find(PROBLEM, solvers=["direct-naive-fwd"]).best
    convolution = handle.prepare(found)
    device: Any = handle.session.device
    args = InvokeArgs(
        x=device.upload(np.ones(PROBLEM.x_shape, np.float32)),
        w=device.upload(np.ones(PROBLEM.w_shape, np.float32)),
        y=device.allocate(PROBLEM.nbytes("y")),
    )

    def loop(enqueue: Callable[[], object]) -> Callable[[], object]:
        count = 0

        def run() -> None:
            nonlocal count
            enqueue()
            count += 1
            if count % 100 == 0:
                device.synchronize()

        return run

    ours = loop(lambda: convolution.enqueue(args))
    ready = convolution.invoker._steps[0]  # type: ignore[attr-defined]
    raw = loop(
        lambda: cl.enqueue_nd_range_kernel(device.queue, ready._kernel, ready._global, ready._local)
    )
    # In turns, so that a change of the machine's speed hits both.
    pairs = [(microseconds(ours, 500), microseconds(raw, 500)) for _ in range(5)]
    return statistics.median(o for o, _ in pairs), statistics.median(r for _, r in pairs)


def measure(device: str) -> dict[str, float]:
    """Measure everything on one device."""
    results: dict[str, float] = {"import_ms": import_ms()}
    problem = convfind.ConvProblem.forward(x=(16, 64, 56, 56), w=(64, 64, 3, 3), padding=1)
    folder = Path(tempfile.mkdtemp(prefix="convfind-overhead-"))
    settings = convfind.Settings(user_db_path=folder)
    with convfind.open(device, settings=settings) as handle:
        ours, raw = invoker_us(handle)
        results |= {"invoker_us": ours, "raw_enqueue_us": raw, "invoker_adds_us": ours - raw}
        small = problem.with_batch(1)
        handle.find(small)
        target, database = handle.target, handle.database
        results["finddb_hit_us"] = microseconds(lambda: database.lookup(target, small))
        results["finddb_miss_us"] = microseconds(lambda: database.lookup(target, problem))
        results["find_hit_us"] = microseconds(lambda: handle.find(small))
        policy = Policy()
        results["screening_us"] = microseconds(
            lambda: screen(problem, handle.session, policy), calls=200
        )
        results["applicability_us_worst"] = max(
            microseconds(lambda solver=solver: solver.takes(problem, target))  # type: ignore[misc]
            for solver in handle.registry.solvers
        )
    return results


@click.command()
@click.option("--device", default="opencl:cpu", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(device: str, as_json: bool) -> None:
    """Measure the overheads of convfind with what is installed."""
    results = measure(device)
    if as_json:
        click.echo(json.dumps(results, indent=2))
        return
    table = Table("what", "measured", "at most", title=f"Overheads on {device}")
    limits = {
        "import_ms": 100,
        "invoker_adds_us": 10,
        "finddb_hit_us": 30,
        "applicability_us_worst": 5,
    }
    for name, value in results.items():
        table.add_row(name, f"{value:.2f}", str(limits.get(name, "")))
    Console().print(table)


if __name__ == "__main__":
    main()
