"""Our convolutions as contestants, and samples of everybody in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import convfind
from convfind.checking.random_data import random_operands
from convfind.device.target import DeviceKind
from convfind.handle import Handle
from convfind.handle.convolution import Convolution
from convfind.problem import ConvProblem
from convfind.runtime.backend import InvokeArgs
from peers.timing import Contestant, host_timer

#: The least duration of a sample, so that a clock's step and a launch do not count.
SAMPLE_MS = 2.0


def prepared(
    handle: Handle, problem: ConvProblem, solution: convfind.Solution, *, bound: bool
) -> tuple[Convolution, Any]:
    """Make a solution ready, with random operands on the device; bound: with its weights."""
    device = handle.session.device
    arrays = random_operands(problem, seed=0)
    convolution = handle.bind(solution, w=arrays.pop("w")) if bound else handle.prepare(solution)
    result = problem.direction.writes
    buffers: dict[str, Any] = {name: device.upload(array) for name, array in arrays.items()}
    buffers[result] = device.allocate(problem.nbytes(result))
    if convolution.workspace_size:
        buffers["workspace"] = device.allocate(convolution.workspace_size)
    return convolution, InvokeArgs(**convolution.bound, **buffers)


def timer(handle: Handle, convolution: Convolution, args: Any) -> Any:
    """On a CPU the caller's time, launches and waiting included.

    On a GPU that of calls in a row, which is how its peers are timed.
    """
    device = handle.session.device
    if handle.target.kind is DeviceKind.CPU:

        def run() -> None:
            convolution.enqueue(args)
            device.synchronize()

        return host_timer(run)

    def device_ms(calls: int) -> float:
        device.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            convolution.enqueue(args)
        device.synchronize()
        return (time.perf_counter() - began) * 1e3 / calls

    return device_ms


def samples_of(
    contestants: Sequence[Contestant], rounds: int
) -> list[tuple[Contestant, list[float]]]:
    """Time everyone once a round; a sample is as many calls as make it long enough."""
    calls = {}
    for contestant in contestants:
        contestant.time_ms(1)
        calls[contestant.name] = max(1, round(SAMPLE_MS / max(contestant.time_ms(2), 1e-3)))
    samples: list[tuple[Contestant, list[float]]] = [(c, []) for c in contestants]
    before = contestants[-1]
    for _ in range(rounds):
        for contestant, times in samples:
            time.sleep(before.spin_s)
            before = contestant
            contestant.time_ms(1)
            times.append(contestant.time_ms(calls[contestant.name]))
    return samples
