"""Few channels a group on GPUs, channels last: the weight gradient."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, ConfigValue, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import DataType
from convfind_solvers_direct.gpu.conv import most_weights
from convfind_solvers_direct.gpu.weights import GpuWeights, Split, parts_of
from convfind_solvers_direct.window import Window, window

_UNITS = 32
#: Work-groups that fill a unit where items have channels in fours, as they do where taps are few.
_LANES, _MOST_WIDE_TAPS, _WIDE_GROUPS_A_UNIT = 4, 9, 3
#: Sums of an item that has channels in twos or fours; rows of y up to which an item takes one.
_MOST_WIDE_WEIGHTS, _LOW = 50, 14
#: Sums that an item keeps of filters with more taps in a row than these.
_MOST_WIDE_SUMS, _NARROW = 48, 16
#: Sums, gradients and a row of x of an item; so many gradients always fit.
_MOST_KEPT, _FEW_GRADIENTS = 128, 28


class PixelsWeights(GpuWeights):
    """Channels last."""

    channels_last = True
    version = 3

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if target.local_memory < 4 * 256 * shape.window[1]:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * 256 * shape.window[1]} bytes")
        if shape.images * math.prod(shape.out) >= 2**31:
            return Rejected(Reason.SIZE_LIMIT, "positions of all images")
        return APPLICABLE

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """As many channels an item as have sums that fit registers."""
        config = super().default_config(problem, target)
        shape = window(problem)
        if (lanes := max(_lanes(shape, problem.dtype, target))) == 1:
            return config
        is_strided, groups = shape.stride[1] > 1, _WIDE_GROUPS_A_UNIT
        if problem.dtype is DataType.FLOAT32:
            rows, columns = 2 if is_strided else 4, 2
        elif lanes < _LANES:
            rows, columns = 7, 4
        elif is_strided:
            rows, columns = 7, 1
        elif shape.out[0] <= _LOW:
            rows, columns = 1, 7
        else:
            rows, columns, groups = 2, 2, 2 * groups
        config = config.replace(lanes=lanes, rows=min(rows, shape.out[0]), columns=columns)
        wanted = groups * target.compute_units // self._split(shape, config).groups
        return config.replace(parts=parts_of(wanted))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """As all, and the numbers of channels that an item may have."""
        space = super().search_space(problem, target)
        legal = _lanes(window(problem), problem.dtype, target)
        why = "whole fours, or twos of 16 bits, of channels with few weights of their own each"
        lanes = Constraint.among("lanes", ("lanes",), lambda lanes: lanes in legal, why)
        sums = (width := window(problem).window[1]) * self._chunk(window(problem), target)
        stepped = self._is_stepped(problem)
        kept = Constraint.among(
            *("sums", ("rows", "columns")),
            lambda rows, columns: (
                not stepped
                or rows * columns <= max(_FEW_GRADIENTS, _MOST_KEPT - sums - width - columns)
            ),
            "sums, gradients and x have to fit registers together",
        )
        return SearchSpace(space.parameters, (*space.constraints, lanes, kept))

    def _is_stepped(self, problem: ConvProblem) -> bool:
        # Floats with few taps leave room for the offsets, and were measured so.
        few = window(problem).taps <= _MOST_WIDE_TAPS
        return not few or problem.dtype is not DataType.FLOAT32

    def _chunk(self, shape: Window, target: Target) -> int:
        rows = super()._chunk(shape, target)
        width = shape.window[1]
        return rows if width <= _NARROW else min(rows, max(1, _MOST_WIDE_SUMS // width))

    def _macros(self, shape: Window, config: Config, target: Target) -> dict[str, DefineValue]:
        units = _UNITS // config.integer("lanes")
        return {"CHANNELS_LAST": True, "CHUNK": self._chunk(shape, target), "UNITS": units}

    def _split(self, shape: Window, config: Config) -> Split:
        units = shape.groups * shape.filters * shape.channels
        steps = -(-shape.out[0] // config.integer("rows"))
        steps *= -(-shape.out[1] // config.integer("columns"))
        return Split(-(-units // _UNITS), shape.images * steps, ())

    def _extra(self, shape: Window) -> dict[str, ConfigValue]:
        return {"columns": 7 if shape.stride[1] > 1 else 4, "lanes": 1}

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        return (
            Parameter("columns", (1, 2, 4, 7, 8), "columns of y that an item takes at a time"),
            Parameter("lanes", (1, 2, _LANES), "channels of an item"),
        )

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        sizes, why = ("rows", "columns", "lanes"), "what is multiplied has to fit them"
        return (Constraint.among("registers", sizes, lambda *n: math.prod(n) <= 64, why),)


def _lanes(shape: Window, dtype: DataType, target: Target) -> tuple[int, ...]:
    """Return how many neighbouring channels an item may have: as many as are loaded at once."""
    if shape.channels > 1 or shape.filters > 1:
        return (1,)
    wanted = (_LANES,) if dtype is DataType.FLOAT32 else (2, _LANES)
    # AMD's compiler takes most of a minute over 50.
    most = min(_MOST_WIDE_WEIGHTS, most_weights(target))
    return (1, *(n for n in wanted if not shape.groups % n and n * shape.taps <= most))
