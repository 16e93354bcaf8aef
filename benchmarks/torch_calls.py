"""The host's time of one converted convolution in PyTorch, over that of PyTorch's own call.

    python benchmarks/torch_calls.py
    python benchmarks/torch_calls.py --device cuda

The convolution is so small that kernels take nothing. ``launch`` is the runtime's share of a call:
the kernel enqueued, and on a CPU waited for, by itself. Microseconds, medians of rounds in turns.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn

import convfind_torch
from convfind.runtime.backend import InvokeArgs
from convfind_torch.modules import layer_of

#: Kernels that take no time, and no comparison with PyTorch's, which would be faster.
QUICK: dict[str, Any] = {"mode": "FAST", "keep_faster": False}


def main() -> None:
    """Time calls, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=300, help="in a round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    for name, calls in cases(given.device).items():
        times: dict[str, list[float]] = {key: [] for key in calls}
        for _ in range(given.rounds):
            for key, call in calls.items():
                times[key].append(microseconds(call, given.calls, given.device))
        found = {key: round(median(samples), 2) for key, samples in times.items()}
        found["over"] = round(found["converted"] - found["PyTorch"], 2)
        if given.json:
            print(json.dumps({"call": name, **found}), flush=True)
        else:
            print(f"{name:34}", *(f"{key} {us:8.2f}" for key, us in found.items()), flush=True)


def cases(device: str) -> dict[str, dict[str, Callable[[], object]]]:
    """Return what is timed in turns, by the name of the case."""
    plain, x = nn.Conv2d(4, 4, 1).to(device), torch.randn(1, 4, 4, 4, device=device)
    ours = convfind_torch.convert(copy.deepcopy(plain), **QUICK)
    bound = convfind_torch.convert(copy.deepcopy(plain), **QUICK, constant_weights=True)
    others = ("direct-naive-bwd-data",)
    left = convfind_torch.convert(copy.deepcopy(plain), **QUICK, solvers=others)
    with torch.no_grad():
        for one in (ours, bound, left):
            one(x)
    return {
        "without gradients": {
            "PyTorch": without_gradients(plain, x),
            "converted": without_gradients(ours, x),
            "launch": launch(ours, x),
        },
        "without gradients, weights bound": {
            "PyTorch": without_gradients(plain, x),
            "converted": without_gradients(bound, x),
            "launch": launch(bound, x),
        },
        "without gradients, left to PyTorch": {
            "PyTorch": without_gradients(plain, x),
            "converted": without_gradients(left, x),
        },
        "forward and backward, left": {
            "PyTorch": step(plain, x),
            "converted": step(left, x),
        },
        "forward and backward": {
            "PyTorch": step(plain, x),
            "converted": step(ours, x),
        },
    }


def without_gradients(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    """Return a call that records nothing."""

    def call() -> object:
        with torch.no_grad():
            return module(x)

    return call


def step(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    """Return a forward and a backward pass, to the gradients of weights and bias."""
    gradient = torch.ones_like(module(x))

    def call() -> object:
        module(x).backward(gradient)
        return None

    return call


def launch(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    """Return what the runtime does in a converted module's call, by itself."""
    (route,) = layer_of(module).routes
    assert route.way is not None
    convolution = route.way.convolution
    problem, device = convolution.problem, convolution.device
    names = (*problem.reads, *problem.writes)
    buffers = {
        problem.plain_name(name): device.allocate(problem.operand(name).nbytes) for name in names
    }
    if convolution.workspace_size:
        buffers["workspace"] = device.allocate(convolution.workspace_size)
    args = InvokeArgs(**convolution.bound, **buffers)

    def call() -> object:
        convolution.enqueue(args)
        if x.device.type == "cpu":
            device.synchronize()
        return None

    return call


def microseconds(call: Callable[[], object], calls: int, device: str) -> float:
    """Return the host's mean time of one of so many calls in a row."""
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls * 1e6


if __name__ == "__main__":
    main()
