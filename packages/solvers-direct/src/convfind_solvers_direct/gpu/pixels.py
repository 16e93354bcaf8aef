"""Few channels a group on GPUs, channels last: forward and backward-data."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import round_up
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import DataType
from convfind_solvers_direct.gpu.conv import (
    MOST_WEIGHTS,
    GpuConv,
    Groups,
    Numbers,
    is_unrolled,
    most_weights,
    rows_of,
)
from convfind_solvers_direct.window import Window, window

_MOST_ALONG_AXIS = 65535
#: Results of an item.
_MOST_RESULTS = 64
#: Rows of the result up to which two work-groups walk down them.
_LOW = 14
#: Weights of a work-group in local memory.
_MOST_KEPT = 12288
#: The shares of memory's bandwidth, of 32 bits and 16.
_BANDWIDTH_SHARE, _NARROW_SHARE = 0.8, 0.5


class PixelsConv(GpuConv):
    """Channels last."""

    channels_last = True
    version = 3
    _file = "gpu_pixels"

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Four channels of few results with small filters, two of 16 bits; else one of many."""
        shape = window(problem)
        row_step, step = shape.stride if shape.is_gradient else (1, 1)
        legal = _lanes(shape, problem.dtype)
        wide = 4 in legal and shape.taps <= 9 and 4 * row_step * round_up(2, step) <= _MOST_RESULTS
        # Two of 16 bits are loaded as one is, if registers hold the weights of both.
        paired = (
            2 in legal
            and 2 * shape.taps <= most_weights(target)
            and 2 * row_step * round_up(4, step) <= _MOST_RESULTS
        )
        is_narrow = problem.dtype is not DataType.FLOAT32
        is_strided, is_low = max(shape.stride) > 1, shape.out[0] <= _LOW
        if wide and target.is_amd:
            rows, columns = 4, 2  # AMD's compiler unrolls fewer rows before it spills
        elif wide and shape.is_gradient and is_strided:
            rows, columns = 7, 2
        elif wide and is_narrow:
            rows, columns = (7 if is_low else 8, 1) if is_strided else (2, 4)
        elif wide:
            # More rows read fewer of the source twice, which with strides are longer.
            rows, columns = (12, 1) if is_strided and not is_low else (7, 2)
        elif paired:
            rows, columns = 7, 2 if is_strided else 4
        elif shape.channels > 1:
            rows, columns = 4, 2
        else:
            taps = min(shape.taps, MOST_WEIGHTS)
            is_large = 49 <= taps <= most_weights(target) and not is_narrow
            rows, columns = 8 if is_large else 4, 4
        columns, lanes = round_up(columns, step), 4 if wide else 2 if paired else 1
        most = _MOST_RESULTS // (lanes * columns) // row_step * row_step
        return Config(
            rows=min(rows_of(shape, rows), most),
            items=min(128, target.max_work_group),
            columns=columns,
            lanes=lanes,
        )

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """As all, and the numbers of channels that an item may have."""
        space = super().search_space(problem, target)
        legal = _lanes(window(problem), problem.dtype)
        why = "whole fours, or twos of 16 bits, of channels with weights of their own each"
        lanes = Constraint.among("lanes", ("lanes",), lambda lanes: lanes in legal, why)
        taps = window(problem).taps
        kept = Constraint.among(
            *("kept", ("lanes", "items")),
            lambda lanes, items: lanes == 1 or lanes * items * taps <= _MOST_KEPT,
            "the weights of a work-group have to fit local memory",
        )
        return SearchSpace(space.parameters, (*space.constraints, lanes, kept))

    def _bandwidth_share(self, problem: ConvProblem) -> float:
        # Registers wait for the loads of one row after the other.
        return _BANDWIDTH_SHARE if problem.dtype is DataType.FLOAT32 else _NARROW_SHARE

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if target.local_memory < 4 * _MOST_KEPT:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * _MOST_KEPT} bytes")
        if max(shape.images, shape.out[0] + 64) > _MOST_ALONG_AXIS:
            return Rejected(Reason.SIZE_LIMIT, f"{shape.images} images, {shape.out[0]} rows")
        return APPLICABLE

    def _is_squeezed(self, problem: ConvProblem, config: Config) -> bool:
        shape = window(problem)
        is_strided = shape.is_gradient and shape.stride != (1, 1)
        # Floats with unrolled taps were measured without a limit, and spill nowhere.
        return not is_unrolled(shape, config) or (
            is_strided and problem.dtype is not DataType.FLOAT32
        )

    def _launch(self, shape: Window, config: Config) -> tuple[Numbers, Groups]:
        rows, columns = config.integer("rows"), config.integer("columns")
        units = shape.groups * shape.filters // config.integer("lanes")
        items = units * -(-(shape.out[1] + shape.shift[1]) // columns)
        numbers = (shape.groups, *shape.size, *shape.out, *shape.padding, *shape.shift)
        groups = (
            -(-items // config.integer("items")),
            -(-(shape.out[0] + shape.shift[0]) // rows),
            shape.images,
        )
        return numbers, groups

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        return (
            Parameter("columns", (1, 2, 3, 4, 5, 6, 7, 8), "columns of the result of an item"),
            Parameter("lanes", (1, 2, 4), "channels of an item"),
        )

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        def has_registers(config: Config) -> bool:
            lanes, rows, columns = config.integers("lanes", "rows", "columns")
            if is_unrolled(shape, config) and lanes * shape.taps > MOST_WEIGHTS:
                return False
            return lanes * rows * columns <= _MOST_RESULTS

        step = shape.stride[1] if shape.is_gradient else 1
        return (
            Constraint.among("columns", ("columns",), lambda n: n % step == 0, "whole strides"),
            Constraint("registers", has_registers, "sums and weights have to fit them"),
        )


def _lanes(shape: Window, dtype: DataType) -> tuple[int, ...]:
    """Return how many neighbouring channels an item may have: floats, as it loads them at once."""
    if shape.channels > 1 or shape.filters > 1:
        return (1,)
    wanted = (4,) if dtype is DataType.FLOAT32 else (2, 4)
    return (1, *(lanes for lanes in wanted if not shape.groups % lanes))
