"""The CUDA backend on PyTorch's tensors: right in place, on streams and in graphs, and how quick.

    python benchmarks/cuda_tensors.py benchmarks/layers/headline.txt

Every layer, in three directions: convfind's first choice runs on PyTorch's tensors, on its current
stream, on another one, and in a CUDA graph; results are compared with PyTorch's in float64. Times
are those of calls in a row on the same tensors; the same solver and config through OpenCL, where a
device of it is there, has its own events; the host's time is that of a prepared call. Exit code 1:
a result is wrong.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import convfind
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.problem.text import read_layer_file
from convfind.runtime.backend import InvokeArgs
from convfind.types import Direction

cuda: Any = torch.cuda
_CALLS, _ROUNDS = 20, 5
_HOST_CALLS = 1000
#: Largest norm of the difference to the result in float64, as a share of that one's norm.
_BOUND = {torch.float32: 5e-5, torch.float16: 3e-3, torch.bfloat16: 3e-2}
_TF32_BOUND = 5e-3


@dataclass(frozen=True, slots=True)
class Row:
    """A problem: its solver, errors in place, on another stream, in a graph, and times."""

    problem: str
    solver: str
    errors: tuple[float, ...]
    bound: float
    cuda_ms: float
    graph_ms: float
    opencl_ms: float | None
    cudnn_ms: float
    host_us: float
    launches: int

    @property
    def is_wrong(self) -> bool:
        """True where an error is over the bound, or no number."""
        return not all(error <= self.bound for error in self.errors)


def tensors_of(problem: ConvProblem) -> dict[str, Any]:
    """Return random tensors of a problem, in its memory layout."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    rank, dtype = problem.spatial_rank, getattr(torch, problem.dtype.value)
    last = torch.channels_last if rank == 2 else torch.channels_last_3d
    form = last if problem.x_layout.channels_last else torch.contiguous_format
    return {
        name: torch.randn(shape, device="cuda", generator=generator).to(dtype, memory_format=form)
        for name, shape in (
            *(("x", problem.x_shape), ("w", problem.w_shape), ("y", problem.y_shape)),
        )
    }


def peer(problem: ConvProblem, tensors: dict[str, Any]) -> Callable[[], Any]:
    """Return PyTorch's own operation on the same tensors."""
    rank = problem.spatial_rank
    x, w, y = tensors["x"], tensors["w"], tensors["y"]
    options = (problem.stride, problem.padding, problem.dilation)
    if problem.direction is Direction.FORWARD:
        return lambda: torch.convolution(
            *(x, w, None, *options, False, (0,) * rank, problem.groups)
        )
    wanted = [name == problem.direction.writes for name in ("x", "w")]
    which = wanted.index(True)
    return lambda: torch.ops.aten.convolution_backward(
        *(y, x, w, None, *options, False, (0,) * rank, problem.groups, [*wanted, False])
    )[which]


def milliseconds(call: Callable[[], object]) -> float:
    """Return the device's time of a call, of several in a row: the median of rounds."""
    for _ in range(3):
        call()
    times = []
    for _ in range(_ROUNDS):
        first, last = (cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(_CALLS):
            call()
        last.record()
        last.synchronize()
        times.append(float(first.elapsed_time(last)) / _CALLS)
    return statistics.median(times)


def host_microseconds(call: Callable[[], object]) -> float:
    """Return the time that a call keeps its caller, while the device has room for more."""
    times = []
    for _ in range(_HOST_CALLS // 50):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(50):
            call()
        times.append((time.perf_counter() - begin) / 50)
    return statistics.median(times) * 1e6


def problems(file: Path, dtype: str, layout: str, tf32: bool) -> Iterator[ConvProblem]:
    """Yield a file's layers without a bias, in three directions."""
    for layer in read_layer_file(file):
        forward = layer.problem.with_direction(Direction.FORWARD)
        shaped = ConvProblem.forward(
            *(forward.x_shape, forward.w_shape),
            stride=forward.stride,
            padding=forward.padding,
            dilation=forward.dilation,
            groups=forward.groups,
            layout=layout,
            dtype=dtype,
            allow_tf32=tf32,
        )
        for direction in Direction:
            yield shaped.with_direction(direction)


def measured(handle: Handle, opencl: Handle | None, problem: ConvProblem, mode: str) -> Row:
    """Run a problem in all ways, and time it."""
    solution = handle.find(problem, mode=mode).best
    convolution = handle.prepare(solution)
    tensors = tensors_of(problem)
    name = problem.direction.writes
    exact = peer(problem, {key: value.double() for key, value in tensors.items()})()
    reads = {key: value for key, value in tensors.items() if key != name}
    workspace = torch.empty(max(convolution.workspace_size, 16), dtype=torch.uint8, device="cuda")
    out = torch.empty_like(tensors[name])

    def run() -> None:
        convolution.run(**reads, out=out, workspace=workspace)

    def error(result: Any) -> float:
        difference = (result.double() - exact).norm() / exact.norm()
        return float(difference)

    errors = []
    out.fill_(float("nan"))
    run()
    errors.append(error(out))
    errors.append(error(torch.utils.dlpack.from_dlpack(convolution.run(**reads))))
    side = cuda.Stream()
    out.fill_(float("nan"))
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    errors.append(error(out))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    out.fill_(float("nan"))
    graph.replay()
    errors.append(error(out))
    device = handle.session.device
    buffers = {key: device.adopt(value) for key, value in {**reads, name: out}.items()}
    plain = {problem.plain_name(key): buffer for key, buffer in buffers.items()}
    args = InvokeArgs(**plain, workspace=device.adopt(workspace))
    return Row(
        problem=problem.key,
        solver=solution.solver,
        errors=tuple(errors),
        bound=_TF32_BOUND if problem.allow_tf32 else _BOUND[tensors["x"].dtype],
        cuda_ms=milliseconds(lambda: convolution.enqueue(args)),
        graph_ms=milliseconds(graph.replay),
        opencl_ms=None if opencl is None else opencl_time(opencl, problem, solution),
        cudnn_ms=milliseconds(peer(problem, tensors)),
        host_us=host_microseconds(lambda: convolution.enqueue(args)),
        launches=len(convolution.recipe.unbound_steps),
    )


def opencl_time(handle: Handle, problem: ConvProblem, solution: Any) -> float | None:
    """Return the time of the same solver and config through OpenCL, by calls in a row."""
    solver = handle.registry.solver(solution.solver)
    if not solver.takes(problem.plain(), handle.target):
        return None
    recipe = solver.solution(problem.plain(), handle.target, solution.config)
    device = handle.session.device
    loaded = {program: device.load(program, device.compile(program)) for program in recipe.programs}
    invoker = device.invoker(recipe.unbound_steps, loaded)
    plain = problem.plain()
    random = np.random.default_rng(1)  # zeros would take less power, and so less time
    buffers = {
        key: device.upload(
            random.standard_normal(plain.elements(key), np.float32).astype(plain.dtype.numpy)
        )
        for key in ("x", "w", "y")
    }
    args = InvokeArgs(**buffers, workspace=device.allocate(max(recipe.total_workspace, 16)))
    times = []
    for _ in range(_ROUNDS + 1):
        device.synchronize()
        begin = time.perf_counter()
        for _ in range(4 * _CALLS):
            invoker(args)
        device.synchronize()
        times.append((time.perf_counter() - begin) / (4 * _CALLS))
    return statistics.median(times[1:]) * 1e3


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="cuda:0", show_default=True)
@click.option("--opencl", default="opencl:nvidia", show_default=True, help="Empty: without.")
@click.option("--mode", default="normal", show_default=True, help="Of the find.")
@click.option("--dtype", default="float32", show_default=True)
@click.option("--layout", default="NHWC", show_default=True)
@click.option("--tf32", is_flag=True, help="Allow TF32 factors.")
@click.option("--first", type=int, help="So many problems.")
@click.option("--time-limit", default=1e9, help="Begin nothing after so many seconds.")
def main(
    file: Path,
    device: str,
    opencl: str,
    mode: str,
    dtype: str,
    layout: str,
    tf32: bool,
    first: int | None,
    time_limit: float,
) -> None:
    """Compare and time the layers of a file."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = tf32
    torch.zeros(1, device="cuda")
    begin, rows = time.monotonic(), []
    other = None
    if opencl:
        try:
            other = convfind.open(opencl)
        except ConvfindError as exc:
            click.echo(f"without OpenCL: {exc}", err=True)
    with convfind.open(device) as handle:
        for problem in [*problems(file, dtype, layout, tf32)][:first]:
            if time.monotonic() - begin > time_limit:
                break
            try:
                rows.append(measured(handle, other, problem, mode))
            except ConvfindError as exc:
                click.echo(f"{problem}: {type(exc).__name__}: {exc}", err=True)
    Console(width=190).print(table_of(rows))
    for title, ratio in (
        ("OpenCL", [row.opencl_ms / row.cuda_ms for row in rows if row.opencl_ms]),
        ("cuDNN", [row.cudnn_ms / row.cuda_ms for row in rows]),
    ):
        if ratio:
            click.echo(f"{title}'s time over CUDA's: {statistics.geometric_mean(ratio):.3f}")
    sys.exit(any(row.is_wrong for row in rows))


def table_of(rows: list[Row]) -> Table:
    """Return a line a problem."""
    table = Table(title=torch.cuda.get_device_name())
    for heading in ("problem", "solver", "launches", "largest error"):
        table.add_column(heading)
    for heading in ("CUDA ms", "graph ms", "OpenCL ms", "cuDNN ms", "host us"):
        table.add_column(heading, justify="right")
    for row in rows:
        opencl = "" if row.opencl_ms is None else f"{row.opencl_ms:.4f}"
        error = f"{max(row.errors):.1e}" + (" WRONG" if row.is_wrong else "")
        table.add_row(
            *(row.problem, row.solver, str(row.launches), error),
            *(f"{row.cuda_ms:.4f}", f"{row.graph_ms:.4f}", opencl, f"{row.cudnn_ms:.4f}"),
            f"{row.host_us:.1f}",
        )
    return table


if __name__ == "__main__":
    main()
