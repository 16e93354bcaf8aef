"""Memory-bound operators against the bandwidth of a copy: tensors far larger than any cache.

The yardstick is the fastest copy of as many bytes that is at hand: convfind's own, NumPy's on
CPUs (a thread a core), PyTorch's on NVIDIA GPUs where it is installed. Each operator takes turns
with convfind's copy, since the bandwidth of a shared host changes within seconds; where another's
copy is faster, what takes turns counts as so much more. Bytes are those of all operands, each
counted once.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import convfind
from convfind.device.target import DeviceKind
from convfind.handle import Handle
from convfind.runtime.backend import InvokeArgs, Invoker
from convfind_operators import solver_of
from convfind_operators.operator import Operator
from convfind_operators.problem_list import problem_types

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Row:
    """One operator: medians in ms, and bandwidths in GB/s."""

    operator: str
    layout: str
    dtype: str
    mib: float
    time_ms: float
    gbs: float
    copy_gbs: float  # convfind's copy, in turns with it
    share: float  # of the fastest copy


def problems(side: int, batch: int, channels: int, dtype: str) -> Iterator[tuple[str, Operator]]:
    """Yield operators on images of a side, in both layouts, by name."""
    kinds: dict[str, Any] = {one.kind: one for one in problem_types()}
    image, rows = (batch, channels, side, side), (batch * side, side * channels)
    vector = (1, channels, 1, 1)
    for last in (False, True):

        def on(kind: str, channels_last: bool = last, **fields: Any) -> Operator:
            made: Operator = kinds[kind](dtype=dtype, channels_last=channels_last, **fields)
            return made

        pool: dict[str, Any] = {"x": image, "size": 2, "stride": 2}
        yield "copy", on("copy", x=image)
        yield "relu", on("unary", x=image, function="bounded", numbers=(0.0, float("inf")))
        yield "silu", on("unary", x=image, function="swish", numbers=(1.0,))
        yield "add", on("binary", a=image, b=image, function="add")
        yield "multiply by channels", on("binary", a=image, b=vector, function="mul")
        yield "batch norm", on("batch-norm", x=image)
        yield "max pooling 2x2", on("pooling", **pool, function="max")
        yield (
            "mean pooling 3x3",
            on("pooling", **{**pool, "size": 3, "stride": 1, "padding": 1}, function="average"),
        )
        yield "mean of images", on("reduction", x=image, function="mean", axes=(2, 3))
        yield "group norm", on("group-norm", x=image, groups=8)
        yield "softmax of channels", on("softmax", x=image, axis=1)
        yield (
            "resize, nearest",
            on(
                "resize",
                x=image,
                sizes=(*image[:2], 2 * side, 2 * side),
                scales=(1.0, 1.0, 2.0, 2.0),
                interpolation="nearest",
                coordinates="asymmetric",
                rounding="floor",
            ),
        )
        yield (
            "resize, linear",
            on(
                "resize",
                x=image,
                sizes=(*image[:2], 2 * side, 2 * side),
                scales=(1.0, 1.0, 2.0, 2.0),
                interpolation="linear",
            ),
        )
        yield "concatenation", on("concat", shapes=(image, image), axis=1)
        yield "padding", on("pad", x=image, begin=(0, 0, 1, 1), end=(0, 0, 1, 1))
    yield "sums of columns", kinds["reduction"](x=rows, function="sum", axes=(0,), dtype=dtype)
    yield "layer norm", kinds["layer-norm"](x=rows, scale=rows[1:], bias=rows[1:], dtype=dtype)
    yield "softmax of rows", kinds["softmax"](x=rows, axis=1, dtype=dtype)
    yield "transpose", kinds["transpose"](x=rows, order=(1, 0), dtype=dtype)


NUMBERS = np.random.default_rng(1).standard_normal(2**20, np.float32)


class Bench:
    """Times operators on a device, in turns with copies."""

    def __init__(self, handle: Handle, rounds: int) -> None:
        self._device = handle.session.device
        self._target = handle.target
        self._kernels = handle.session.kernels
        self._rounds = rounds
        self._copy: tuple[Invoker, InvokeArgs, float] | None = None

    def ready(self, problem: Operator) -> tuple[Invoker, InvokeArgs]:
        """Return an operator made ready, on memory whose pages have been touched."""
        recipe = solver_of(problem, self._target).solution(problem, self._target)
        loaded = self._kernels.load_or_raise(recipe.programs)
        memory = {}
        for operand in problem.operands:
            memory[operand.name] = self._device.allocate(max(operand.nbytes, 1))
            if operand.dtype.is_float:  # arithmetic on zeros may be slower, or faster
                values = np.resize(
                    NUMBERS.astype(operand.dtype.numpy), operand.nbytes // operand.dtype.size
                )
                self._device.write(memory[operand.name], values)
            else:
                self._device.fill(memory[operand.name], 0)
        if recipe.total_workspace:
            memory["workspace"] = self._device.allocate(recipe.total_workspace)
        return self._device.invoker(recipe.unbound_steps, loaded), InvokeArgs(**memory)

    def medians(self, *runs: Callable[[], float]) -> list[float]:
        """Return the median of each, in turns; the first round does not count."""
        samples = [[run() for run in runs] for _ in range(self._rounds + 1)][1:]
        return [statistics.median(column) for column in zip(*samples, strict=True)]

    def copies(self, problem: Operator) -> float:
        """Take a copy for what operators take turns with; return its bandwidth in GB/s."""
        self._copy = (*self.ready(problem), problem.traffic)
        return self.time(problem)[1]

    def time(self, problem: Operator) -> tuple[float, float]:
        """Return medians: an operator's device time in ms, and the copy's GB/s between."""
        assert self._copy is not None
        (invoker, args), (copy, copied, nbytes) = self.ready(problem), self._copy
        ms, of_copy = self.medians(lambda: invoker.timed(args), lambda: copy.timed(copied))
        return ms, nbytes / of_copy / 1e6

    def peers(self, nbytes: int) -> dict[str, float]:
        """Return the bandwidths in GB/s of others' copies of so many bytes."""
        if self._target.kind is DeviceKind.CPU:
            threads = self._target.compute_units or os.cpu_count() or 1
            return {f"NumPy, {threads} threads": _numpy_copy(nbytes, threads, self._rounds)}
        found = _torch_copy(nbytes, self._rounds)
        return {} if found is None else {"PyTorch": found}


def _numpy_copy(nbytes: int, threads: int, rounds: int) -> float:
    source, target = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    parts = [slice(nbytes * at // threads, nbytes * (at + 1) // threads) for at in range(threads)]
    samples = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds + 1):
            began = time.perf_counter()
            list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))
            samples.append(time.perf_counter() - began)
    return 2 * nbytes / statistics.median(samples[1:]) / 1e9


def _torch_copy(nbytes: int, rounds: int) -> float | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    cuda: Any = torch.cuda
    source, target = (torch.ones(nbytes, dtype=torch.uint8, device="cuda") for _ in range(2))
    samples: list[float] = []
    for _ in range(rounds + 1):
        begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end))
    return 2 * nbytes / statistics.median(samples[1:]) / 1e6


@click.command()
@click.option("--device", default="opencl:cpu", show_default=True, help="As convfind names it.")
@click.option("--dtype", default="float32", show_default=True, help="Of all elements.")
@click.option("--mib", default=128, show_default=True, help="MiB of an image tensor.")
@click.option("--rounds", default=11, show_default=True, help="Medians are of so many.")
@click.option("--only", default="", help="As in a shell: which `name, layout`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(device: str, dtype: str, mib: int, rounds: int, only: str, as_json: bool) -> None:
    """Time memory-bound operators against copies."""
    side, channels, size = 64, 64, 2 if "16" in dtype else 4
    batch = max(mib * MIB // (side * side * channels * size), 1)
    found: list[Row] = []
    with convfind.open(device) as handle, Console(stderr=True).status("") as status:
        bench = Bench(handle, rounds)
        title = f"{handle.target.name}, {handle.target.platform}, {handle.target.driver}"
        every = list(problems(side, batch, channels, dtype))
        own = bench.copies(every[0][1])
        yardsticks = {"convfind": own, **bench.peers(mib * MIB)}
        others = max(yardsticks.values()) / own
        for name, problem in every:
            layout = "last" if problem.channels_last else "first"
            if not fnmatch(f"{name}, {layout}", only or "*"):
                continue
            status.update(f"{name}, {dtype}")
            ms, copied = bench.time(problem)
            gbs = problem.traffic / ms / 1e6
            share = gbs / (copied * others)
            found.append(Row(name, layout, dtype, problem.traffic / MIB, ms, gbs, copied, share))
    if as_json:
        document = {"device": title, "copies": yardsticks, "rows": list(map(asdict, found))}
        click.echo(json.dumps(document, indent=1))
        return
    names = ("operator", "channels", "MiB", "ms", "GB/s", "copy's", "of copy")
    table = Table(*names, title=title)
    for row in sorted(found, key=lambda row: row.share):
        rates = (f"{row.gbs:,.1f}", f"{row.copy_gbs:,.1f}", f"{row.share:.0%}")
        table.add_row(row.operator, row.layout, f"{row.mib:,.0f}", f"{row.time_ms:.3f}", *rates)
    Console().print(table)
    for name, gbs in yardsticks.items():
        click.echo(f"copy by {name}: {gbs:,.1f} GB/s")
    within = sum(row.share >= 0.85 for row in found)
    click.echo(f"{within} of {len(found)} reach 85 % of the fastest copy")


if __name__ == "__main__":
    main()
