"""`PoolingSolver`: windows in any layout, on CPUs in vectors of channels or of columns."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.recipe import Argument, BufferArg, Launch, Step, i32, i64, u32
from convfind_operators.launching import VECTOR, Division, grid, has_vectors, kernel
from convfind_operators.line_solver import line_steps
from convfind_operators.operand import Operand
from convfind_operators.pooling import PoolingFunction, PoolingProblem
from convfind_operators.solver import OperatorSolver
from convfind_operators.window import Window

#: Columns that the kernel for rows has in private memory, and those behind the last window.
_BUFFER, _SLACK = 2048, 2 * VECTOR
_LARGEST_AXIS = 2**30
_MOST_ELEMENTS = 2**31


class PoolingSolver(OperatorSolver):
    """One launch; sums and comparisons of the window's taps one after the other."""

    family = PoolingProblem

    def countable(self, problem: PoolingProblem, target: Target) -> Applicability:
        """Take axes and results that an int can count."""
        window = problem.window
        for axis, size in enumerate(problem.x[2:]):
            largest = size + window.padding[axis] + window.reach(axis) + window.stride[axis]
            if largest > _LARGEST_AXIS:
                return Rejected(Reason.SIZE_LIMIT, f"an axis of {largest} with padding")
        if problem.result.elements > _MOST_ELEMENTS:
            return Rejected(Reason.SIZE_LIMIT, f"{problem.result.elements} results")
        return APPLICABLE

    def steps(self, problem: PoolingProblem, target: Target) -> tuple[Step, ...]:
        """One launch; that of a reduction where the only window is the image."""
        if problem.is_global:
            return line_steps(problem.reduction, target)
        if has_vectors(target) and not problem.indices:
            x, y = problem.operand("x"), problem.result
            if x.strides[1] == y.strides[1] == 1:
                return (_elements(problem, target, vectors=True),)
            if x.strides[-1] == y.strides[-1] == 1 and _chunk(problem.window) >= VECTOR:
                return (_rows(problem, target),)
        return (_elements(problem, target, vectors=False),)


def _elements(problem: PoolingProblem, target: Target, *, vectors: bool) -> Launch:
    """One element of y, or 16 of neighbouring channels, after the other."""
    y = problem.result
    channels = problem.x[1]
    elements = y.elements // channels if vectors else y.elements
    macros = {
        **_macros(problem),
        "CHANNELS_LAST": y.strides[1] == 1,
        "VECTORS": vectors,
        "INDICES": problem.indices,
    }
    cost = problem.window.taps * (channels if vectors else 1)
    division = Division.of(elements, 1, target, cost)
    arguments: tuple[Argument, ...] = (BufferArg("x"), BufferArg("y"))
    if problem.indices:
        places = BufferArg("indices")
        arguments += (places, *_strides(problem.operand("indices")))
    sizes = (division.global_size, (1, 1)) if has_vectors(target) else grid(elements, target)
    return Launch(
        kernel("pooling", "operators_pooling", target, macros),
        (
            *arguments,
            *_strides(problem.operand("x")),
            *_strides(y),
            i32(channels),
            u32(elements),
            u32(division.rows),
            *_window(problem),
        ),
        *sizes,
    )


def _rows(problem: PoolingProblem, target: Target) -> Launch:
    """One row of y after the other."""
    y = problem.result
    rows = y.elements // y.shape[-1]
    division = Division.of(rows, 1, target, y.shape[-1] * problem.window.taps)
    return Launch(
        kernel("pooling_rows", "operators_pooling_rows", target, _macros(problem)),
        (
            BufferArg("x"),
            BufferArg("y"),
            *_strides(problem.operand("x"))[:-1],
            *_strides(y)[:-1],
            i32(problem.x[1]),
            u32(rows),
            u32(division.rows),
            i32(_chunk(problem.window)),
            i64(problem.operand("x").span),
            *_window(problem),
        ),
        division.global_size,
        (1, 1),
    )


def _chunk(window: Window) -> int:
    """Return how many windows one filling of the buffer is enough for."""
    stride = window.stride[-1]
    columns = _BUFFER - _SLACK - window.reach(len(window.size) - 1) - VECTOR * stride
    return columns // stride // VECTOR * VECTOR


def _macros(problem: PoolingProblem) -> dict[str, str | int]:
    return {
        "DTYPE": problem.dtype.upper(),
        "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
        "AVERAGE": problem.function is PoolingFunction.AVERAGE,
    }


def _strides(operand: Operand) -> tuple[Argument, ...]:
    """Return the steps of batch, channels and three spatial axes."""
    batch, channel, *spatial = operand.strides
    return tuple(map(i64, (batch, channel, *(0,) * (3 - len(spatial)), *spatial)))


def _window(problem: PoolingProblem) -> tuple[Argument, ...]:
    """Return the arguments of ``WINDOW``."""
    window = problem.window.in_3d()
    x, y = _in_3d(problem.x[2:]), _in_3d(problem.result.shape[2:])
    uncounted: tuple[int, ...] = (0, 0, 0)
    counted = x
    if problem.count_include_pad:
        uncounted = window.padding
        counted = tuple(map(sum, zip(x, window.padding_end, strict=True)))
    sizes = (
        *(*x, *y, *window.size, *window.stride, *window.dilation),
        *(*window.padding, *uncounted, *counted),
        problem.divisor or 0,
    )
    return tuple(map(i32, sizes))


def _in_3d(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (3 - len(sizes)) + sizes
