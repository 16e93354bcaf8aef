"""The gradient of small planes through a stride on GPUs, one channel a group, channels first."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Parameter
from convfind.types import Direction
from convfind_solvers_direct.gpu.chain import CHAIN, ITEMS, ChainConv, Share, floats_of, planes_of
from convfind_solvers_direct.gpu.lines import judge_rows
from convfind_solvers_direct.window import Window, window

_ROWS = Parameter("rows", (1, 2, 3, 4), "times the stride, of the result, of an item")


class UpsampledConv(ChainConv):
    """Backward-data.

    Each row of the source goes into all the results that it meets, which leave through local
    memory of their own.
    """

    prefix = "direct-gpu-upsampled"
    direction = Direction.BACKWARD_DATA
    version = 1
    parameters = (ITEMS, _ROWS, CHAIN)
    _file = "gpu_upsampled"
    _other_registers = 12

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Two waves, and the fewest rows an item."""
        shape = window(problem)
        return self._chained(shape, target, self._nearest(shape, target, rows=1))

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if not (answer := judge_rows(shape, target)):
            return answer
        if max(shape.stride) == 1:
            return Rejected(Reason.STRIDE, "is for strides beyond 1")
        if any(pad >= taps for pad, taps in zip(shape.padding, shape.window, strict=True)):
            return Rejected(Reason.PADDING, "more zeros than the filter reaches")
        return self._judge_planes(problem, shape, target)

    def _share(self, shape: Window, config: Config) -> Share:
        rows, taps = config.integer("rows"), shape.taps
        band = rows * shape.stride[0]
        planes = planes_of(shape, config, band)
        return Share(
            planes,
            floats_of(shape, config, planes) + planes * math.prod(shape.out),
            registers=band * shape.out[1] + shape.size[1] + taps,
            code=rows * shape.size[1] * taps,
        )

    def _macros(self, shape: Window, config: Config) -> dict[str, int]:
        band, width = config.integer("rows") * shape.stride[0], shape.out[1]
        last_band = shape.out[0] % band or band
        return {
            "ABOVE": shape.padding[0],
            "BEFORE": shape.padding[1],
            "SOURCE_HEIGHT": shape.size[0],
            "SOURCE_WIDTH": shape.size[1],
            "HEIGHT": shape.out[0],
            "WIDTH": width,
            "SOURCE_VECTOR": math.gcd(shape.size[1], 4),
            "VECTOR": math.gcd(band * width, last_band * width, math.prod(shape.out), 4),
        }
