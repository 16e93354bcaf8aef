"""An epilogue as a step of its own: one pass over a result that lacks it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.launching import Grid, Kernels
from convfind.kit.row_tile import groups_wanted, row_tile
from convfind.problem import ConvProblem
from convfind.solver.recipe import BufferArg, Launch, i64
from convfind.types import DataType

_KERNELS = Kernels("convfind.kit")
#: Axes of rows that the kernel knows.
_AXES = 4
_MOST_ROWS = 2**15  # of groups, as every runtime can launch


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of a result: its size, elements from one to the next, and whether it is C."""

    size: int
    step: int
    is_channel: bool


def epilogue_step(
    problem: ConvProblem, target: Target, sums: BufferArg | None, *, scales: bool = False
) -> Launch:
    """Return the launch that adds bias and z, and applies the activation, of a plain problem.

    Args:
        problem: the problem.
        target: the device.
        sums: where the result of ``problem.without_epilogue()`` lies, in its form; None: in place.
        scales: whether alpha, and the previous contents of the result, are not in the sums yet.
    """
    writes = problem.direction.writes
    dtype = problem.tensor_dtype(writes)
    arithmetic = dtype if dtype in (DataType.FLOAT64, DataType.INT32) else DataType.FLOAT32
    epilogue = Epilogue.of(problem, arithmetic)
    if not scales:
        epilogue = replace(epilogue, alpha=1.0, beta=epilogue.beta if problem.adds_z else 0.0)
    axes, column = _rows_and_column(problem)
    lanes, columns = row_tile(column.size, target, is_known=column.is_channel)
    program = _KERNELS.program(
        *("epilogue_step", epilogue.defines),
        DTYPE=dtype.upper(),
        LANES=lanes,
        IN_PLACE=sums is None,
    )
    rows = math.prod(axis.size for axis in axes)
    across = -(-column.size // (lanes * columns))
    each = -(-rows // min(max(1, groups_wanted(target) // across), rows, _MOST_ROWS))
    return Grid(program, "epilogue_step", (across, -(-rows // each), 1), lanes)(
        *(sums or writes, writes, *epilogue.arguments),
        *(i64(rows), i64(each), i64(column.size)),
        *(columns, i64(column.step), column.is_channel),
        *(i64(axis.size) for axis in axes[1:]),
        *(i64(axis.step) for axis in axes),
        *(axis.is_channel for axis in axes),
    )


def _rows_and_column(problem: ConvProblem) -> tuple[list[_Axis], _Axis]:
    """Return the axes of rows, as many as the kernel knows, and the fastest axis."""
    writes = problem.direction.writes
    layout = problem.tensor_layout(writes)
    sizes = layout.to_memory(problem.shape(writes))
    steps = layout.to_memory(problem.strides(writes))
    channel = len(sizes) - 1 if layout.channels_last else 1
    axes: list[_Axis] = []
    for place, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        axis = _Axis(size, step, place == channel)
        before = axes[-1] if axes else None
        if before and not (before.is_channel or axis.is_channel) and before.step == size * step:
            axes[-1] = replace(axis, size=before.size * size)
        else:
            axes.append(axis)
    *rows, column = axes
    return [_Axis(1, 0, is_channel=False)] * (_AXES - len(rows)) + rows, column
