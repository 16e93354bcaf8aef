"""PyTorch: oneDNN on CPUs, cuDNN with ``benchmark=True`` on NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from convfind.problem import ConvProblem
from convfind.types import Direction
from peers.timing import Contestant, host_timer

_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_FORWARD = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
_CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def contestants(problem: ConvProblem, threads: int | None) -> Iterator[Contestant]:
    """Yield PyTorch in both layouts, on so many CPU threads or, without a number, on the GPU."""
    if problem.dtype.value not in _TYPES or problem.padding != problem.padding_end:
        return
    if threads is not None:
        torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = problem.allow_tf32
    formats = {"PyTorch NCHW": torch.contiguous_format}
    if len(problem.filter) in _CHANNELS_LAST:
        formats["PyTorch NHWC"] = _CHANNELS_LAST[len(problem.filter)]
    for name, memory_format in formats.items():
        run = _convolution(problem, memory_format, "cpu" if threads else "cuda")
        yield Contestant(name, False, host_timer(run) if threads else _event_timer(run))


def _convolution(problem: ConvProblem, memory_format: Any, device: str) -> Callable[[], object]:
    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        values = torch.rand(shape, device=device).mul_(2).sub_(1)
        return values.to(_TYPES[problem.dtype.value]).to(memory_format=memory_format)

    x, w = tensor(problem.x_shape), tensor(problem.w_shape)
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    if problem.direction is Direction.FORWARD:
        forward = _FORWARD[len(problem.filter)]

        def run_forward() -> object:
            with torch.inference_mode():
                return forward(x, w, None, stride, padding, dilation, problem.groups)

        return run_forward
    y = tensor(problem.y_shape)
    wanted = [
        problem.direction is Direction.BACKWARD_DATA,
        problem.direction is Direction.BACKWARD_WEIGHTS,
        False,
    ]
    no_output_padding = [0] * len(stride)

    def run_backward() -> object:
        return torch.ops.aten.convolution_backward(
            *(y, x, w, None, stride, padding, dilation),
            *(False, no_output_padding, problem.groups, wanted),
        )

    return run_backward


def _event_timer(run: Callable[[], object]) -> Callable[[int], float]:
    def time_ms(calls: int) -> float:
        event: Any = torch.cuda.Event  # untyped
        begin, end = event(enable_timing=True), event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / calls

    return time_ms
