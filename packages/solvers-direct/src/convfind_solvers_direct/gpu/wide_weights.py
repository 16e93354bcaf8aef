"""Few channels a group and stride 1 on GPUs, channels first: the weight gradient."""

from __future__ import annotations

import math
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import has_room
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config, ConfigValue, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.search_space import Constraint, Parameter
from convfind_solvers_direct.gpu.conv import MOST_WEIGHTS, PLAIN_FLOAT32, most_weights
from convfind_solvers_direct.gpu.weights import GpuWeights, Split, parts_of
from convfind_solvers_direct.window import Window, window

_LOCAL_MEMORY = 48 * 1024
_MOST_TAPS = 11
#: Sums, and values of y, of an item.
_MOST_VALUES = 48
_ITEMS = 128
_FEW_TAPS = 25
#: Work-groups of a unit at a time, by the sums of an item.
_RESIDENT = ((9, 8), (25, 5), (49, 4), (MOST_WEIGHTS, 3))


class WideWeights(GpuWeights):
    """Channels first, row length a multiple of 4."""

    channels_last = False
    domain = PLAIN_FLOAT32
    prefix = "direct-gpu-wide"
    version = 1
    arithmetic_share = 0.45
    _file: ClassVar[str] = "gpu_wide_weights"

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """As many parts as work-groups that units compute at a time."""
        config = super().default_config(problem, target)
        shape = window(problem)
        sums = shape.taps * config.integer("results")
        resident = next(count for most, count in _RESIDENT if sums <= most)
        return config.replace(parts=parts_of(resident * target.compute_units // shape.groups))

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        most = most_weights(target)
        if shape.taps > most or max(shape.window) > _MOST_TAPS:
            return Rejected(Reason.FILTER_SIZE, f"is for {most} taps at most")
        if shape.size[1] % 4 or shape.out[1] % 4:
            return Rejected(Reason.SIZE_LIMIT, "rows must be whole fours")
        if shape.images * math.prod(shape.out) >= 2**31:
            return Rejected(Reason.SIZE_LIMIT, "positions of all images")
        return has_room(target, items=_ITEMS, local_bytes=_LOCAL_MEMORY)

    def _macros(self, shape: Window, config: Config, target: Target) -> dict[str, DefineValue]:
        before = -(-shape.padding[1] // 4)
        return {"LEAD": 4 * before - shape.padding[1], "BEFORE": before}

    def _split(self, shape: Window, config: Config) -> Split:
        steps = -(-shape.out[0] // config.integer("rows")) * (shape.out[1] // 4)
        return Split(shape.groups, shape.images * steps, ())

    def _chunk(self, shape: Window, target: Target) -> int:
        return shape.window[0]

    def _rows(self, shape: Window) -> int:
        """Rows whose values of y registers hold, and of those what reads x least often."""
        few = shape.channels > 1 or shape.taps > _FEW_TAPS
        rows = (2, 1) if shape.channels > 1 else (6, 4, 2, 1) if few else (7, 4, 2, 1)
        more = shape.window[0] - 1
        return min(rows, key=lambda count: -(-shape.out[0] // count) * (count + more))

    def _extra(self, shape: Window) -> dict[str, ConfigValue]:
        return {"results": self._results(shape)}

    def _results(self, shape: Window) -> int:
        most = max(MOST_WEIGHTS // 2 // shape.taps, 1)
        return max(count for count in (1, 2, 4) if shape.filters % count == 0 and count <= most)

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        return (Parameter("results", (1, 2, 4), "channels of y of an item"),)

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        taps = shape.taps
        return (
            Constraint.among(
                *("results", ("results",), lambda results: shape.filters % results == 0),
                "a divisor of a group's",
            ),
            Constraint.among(
                *("pairs", ("results", "items")),
                lambda results, items: shape.channels * shape.filters // results <= items,
                "an item for each",
            ),
            Constraint.among(
                *("registers", ("results", "rows")),
                lambda results, rows: (
                    results * taps <= MOST_WEIGHTS and 4 * rows * results <= _MOST_VALUES
                ),
                "sums and values of y have to fit them",
            ),
        )
