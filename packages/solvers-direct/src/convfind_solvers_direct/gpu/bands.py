"""One channel a group and stride 1 on GPUs, channels first: bands of rows of small planes."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Parameter
from convfind_solvers_direct.gpu.chain import CHAIN, ITEMS, ChainConv, Share, floats_of, planes_of
from convfind_solvers_direct.gpu.conv import PLAIN_FLOAT32
from convfind_solvers_direct.gpu.lines import judge_rows
from convfind_solvers_direct.window import Window, window

#: Results of an item, of chains and where the filter is small; else more, for then each row that
#: is read goes into many. With too many, registers leave room for few items.
_USUAL_RESULTS, _RESULTS_OF_MANY_TAPS = 32, 49
_SMALL_TAPS = 9


class BandsConv(ChainConv):
    """Forward and backward-data.

    The results take the source's place in local memory, and the work-group copies them away.
    """

    prefix = "direct-gpu-bands"
    domain = PLAIN_FLOAT32
    version = 2
    parameters = (ITEMS, Parameter("rows", (1, 2, 3, 4, 5, 7, 8), "of an item"), CHAIN)
    _file = "gpu_bands"
    _other_registers = 28

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Two waves, and few results an item; odd rows where even ones meet in memory banks."""
        shape = window(problem)

        def wanted(results: int) -> Config:
            rows = max(results // shape.size[1], 1)
            rows -= shape.size[1] % 8 == 0 and rows % 2 == 0
            return self._nearest(shape, target, rows)

        config = self._chained(shape, target, wanted(_USUAL_RESULTS))
        if config["chain"] == 1 and shape.taps > _SMALL_TAPS:
            return wanted(_RESULTS_OF_MANY_TAPS)
        return config

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if not (answer := judge_rows(shape, target)):
            return answer
        if min(shape.zeros_before) < 0 or shape.size != shape.out:
            return Rejected(Reason.PADDING, "source and result must be equally large")
        return self._judge_planes(problem, shape, target)

    def _share(self, shape: Window, config: Config) -> Share:
        rows, width, taps = config.integer("rows"), shape.size[1], shape.taps
        planes = planes_of(shape, config, rows)
        return Share(
            planes,
            floats_of(shape, config, planes),
            registers=(rows + 1) * width + taps,
            code=rows * width * taps,
        )

    def _macros(self, shape: Window, config: Config) -> dict[str, int]:
        above, before = shape.zeros_before
        return {
            "BEFORE": before,
            "ABOVE": above,
            "HEIGHT": shape.size[0],
            "WIDTH": shape.size[1],
            "VECTOR": math.gcd(shape.size[1], 4),
        }
