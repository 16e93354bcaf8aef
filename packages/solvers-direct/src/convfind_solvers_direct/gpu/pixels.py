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


class PixelsConv(GpuConv):
    """Channels last."""

    channels_last = True
    version = 2
    _file = "gpu_pixels"

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Four channels of few results with small filters; else one channel of many."""
        shape = window(problem)
        row_step, step = shape.stride if shape.is_gradient else (1, 1)
        wide = (
            self._can_be_wide(shape, problem.dtype)
            and shape.taps <= 9
            and 4 * row_step * round_up(2, step) <= _MOST_RESULTS
        )
        if wide and target.is_amd:
            rows, columns = 4, 2  # AMD's compiler unrolls fewer rows before it spills
        elif wide and not shape.is_gradient and max(shape.stride) > 1 and shape.out[0] > _LOW:
            rows, columns = 12, 1  # reads fewer rows twice, which with strides are longer
        elif wide:
            rows, columns = 7, 2
        elif shape.channels > 1:
            rows, columns = 4, 2
        else:
            taps = min(shape.taps, MOST_WEIGHTS)
            rows, columns = 8 if 49 <= taps <= most_weights(target) else 4, 4
        columns, lanes = round_up(columns, step), 4 if wide else 1
        most = _MOST_RESULTS // (lanes * columns) // row_step * row_step
        return Config(
            rows=min(rows_of(shape, rows), most),
            items=min(128, target.max_work_group),
            columns=columns,
            lanes=lanes,
        )

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """As all, and lanes only for float32."""
        space = super().search_space(problem, target)
        wide = self._can_be_wide(window(problem), problem.dtype)
        why = "four channels of float32 with weights of their own each"
        lanes = Constraint.among("lanes", ("lanes",), lambda lanes: wide or lanes == 1, why)
        taps = window(problem).taps
        kept = Constraint.among(
            *("kept", ("lanes", "items")),
            lambda lanes, items: lanes == 1 or lanes * items * taps <= _MOST_KEPT,
            "the weights of a work-group have to fit local memory",
        )
        return SearchSpace(space.parameters, (*space.constraints, lanes, kept))

    @staticmethod
    def _can_be_wide(shape: Window, dtype: DataType) -> bool:
        return (
            dtype is DataType.FLOAT32
            and shape.channels == shape.filters == 1
            and shape.groups % 4 == 0
        )

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
            Parameter("lanes", (1, 4), "channels of an item"),
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
