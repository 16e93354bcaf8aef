"""`PoolingSolver`: windows in any layout, on CPUs in vectors of channels or of columns."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.recipe import Argument, BufferArg, Launch, Step, i32, i64, u32
from convfind_operators.launching import (
    IN_FOURS,
    VECTOR,
    Division,
    grid,
    has_vectors,
    index_type,
    kernel,
    streamed,
)
from convfind_operators.line_solver import lines_planned
from convfind_operators.operand import Operand
from convfind_operators.pooling import PoolingFunction, PoolingProblem
from convfind_operators.solver import OperatorSolver, Planned
from convfind_operators.window import Window

#: Columns that the kernel for rows has in private memory, and those behind the last window.
_BUFFER, _SLACK = 4096, 2 * VECTOR
#: Rows that share them at most.
_MOST_AT_ONCE = 8
#: Windows that share their columns' elements, at least.
_LEAST_WINDOWS = 4
#: Windows below each other that a work-item of a GPU may have, of one channel or column and of
#: several; the loads that it may spell out, and the work-items that a core needs.
_STRIPS, _STRIPS_OF_FOURS, _MOST_LOADS, _BUSY = (8, 4, 2), (2,), 64, 2048
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

    def planned(self, problem: PoolingProblem, target: Target, limit: int | None) -> Planned:
        """Return the launch, or those of a reduction where the only window is the image."""
        if problem.is_global:
            return lines_planned(problem.reduction, target, limit)
        return super().planned(problem, target, limit)

    def steps(self, problem: PoolingProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        if has_vectors(target) and not problem.indices:
            x, y = problem.operand("x"), problem.result
            if x.strides[1] == y.strides[1] == 1:
                if _has_rows_of_channels(problem):
                    return (_rows(problem, target, problem.x[1]),)
                return (_elements(problem, target, vectors=True),)
            if x.strides[-1] == y.strides[-1] == 1 and _chunk(problem.window) >= VECTOR:
                return (_rows(problem, target),)
        if not has_vectors(target) and not problem.indices and 0 not in problem.x:
            strips = _strips(problem, target)
            if strips is not None:
                return (strips,)
        return (_elements(problem, target, vectors=False),)


def _elements(problem: PoolingProblem, target: Target, *, vectors: bool) -> Launch:
    """One element of y, or 16 of neighbouring channels, after the other."""
    y = problem.result
    channels = problem.x[1]
    elements = y.elements // channels if vectors else y.elements
    macros = {
        **_macros(problem, target),
        "CHANNELS_LAST": y.strides[1] == 1,
        "VECTORS": vectors,
        "INDICES": problem.indices,
        **(
            _known(problem.window.in_3d()) if vectors and problem.window.taps <= _MOST_LOADS else {}
        ),
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


def _has_rows_of_channels(problem: PoolingProblem) -> bool:
    """Whether windows share columns that are whole vectors of channels, and some fit the buffer."""
    window, axis = problem.window, len(problem.window.size) - 1
    if window.stride[axis] >= window.reach(axis):
        return False
    channels, (x, y) = problem.x[1], (problem.operand("x"), problem.result)
    packed = x.strides[-1] == y.strides[-1] == channels and not channels % VECTOR
    return packed and _chunk(window, channels) >= _LEAST_WINDOWS


def _rows(problem: PoolingProblem, target: Target, pitch: int = 1) -> Launch:
    """One row of y after the other, whose columns have so many channels, or one."""
    y, window = problem.result, problem.window.in_3d()
    rows = y.elements // y.shape[-1] // pitch
    division = Division.of(rows, 1, target, y.shape[-1] * pitch * problem.window.taps)
    macros = {**_macros(problem, target), "CHANNELS_LAST": pitch > 1}
    if window.taps <= _MOST_LOADS:
        macros |= _known(window)
    return Launch(
        kernel("pooling_rows", "operators_pooling_rows", target, macros),
        (
            BufferArg("x"),
            BufferArg("y"),
            *_strides(problem.operand("x"))[:-1],
            *_strides(y)[:-1],
            i32(problem.x[1]),
            u32(rows),
            u32(division.rows),
            *map(i32, _shares(problem, pitch)),
            i64(problem.operand("x").span),
            *_window(problem),
        ),
        division.global_size,
        (1, 1),
    )


def _strips(problem: PoolingProblem, target: Target) -> Launch | None:
    """Some rows of y at once, of some columns or channels; None where windows are too large."""
    x, y, window = problem.operand("x"), problem.result, problem.window.in_3d()
    channels, is_last = problem.x[1], y.strides[1] == x.strides[1] == 1
    four = _neighbours(problem, is_last=is_last)
    rows = _in_3d(y.shape[2:])[1]

    across = window.size[2] if is_last else (four - 1) * window.stride[2] + window.reach(2)

    def loads(strip: int) -> int:
        return ((strip - 1) * window.stride[1] + window.reach(1)) * across

    def items(strip: int) -> int:
        return y.elements // rows // four * -(-rows // strip)

    is_aligned = four > 1 and not is_last and _is_aligned(problem, four)
    # Rows that no other window meets are read once by themselves.
    shares_rows = window.stride[1] < window.reach(1)
    strips = [
        strip
        for strip in (_STRIPS_OF_FOURS if four > 1 else _STRIPS)
        if shares_rows
        and strip <= rows
        and loads(strip) <= _MOST_LOADS
        and items(strip) >= target.compute_units * _BUSY
    ]
    strip = max(strips, default=1)
    if loads(strip) > _MOST_LOADS:
        return None
    macros = {
        **_macros(problem, target),
        **_known(window),
        "CHANNELS_LAST": is_last,
        "FOUR": four,
        "STRIP": strip,
        "INDEX": index_type(items(strip)),
    }
    if is_aligned:
        macros |= {"ALIGNED": 1, "PAD_W": window.padding[2]}
    return Launch(
        kernel("pooling_strips", "operators_pooling_strips", target, macros),
        (
            *(BufferArg("x"), BufferArg("y")),
            *(*_strides(x), *_strides(y)),
            *(i32(channels), i32(-(-rows // strip)), i64(items(strip))),
            *_window(problem),
        ),
        *grid(items(strip), target),
    )


def _neighbours(problem: PoolingProblem, *, is_last: bool) -> int:
    """Return how many elements of y a work-item of a GPU stores at a time: channels, or columns."""
    x, y = problem.operand("x"), problem.result
    if problem.dtype not in IN_FOURS or not (is_last or x.strides[-1] == y.strides[-1] == 1):
        return 1
    inner = 1 if is_last else len(y.shape) - 1
    # Columns of x are loaded at a time only where that is of use.
    places = [y.shape[inner], *_steps_beside(y, inner), *(_steps_beside(x, 1) if is_last else ())]
    is_eight = problem.dtype.size == 2 and (is_last or _is_aligned(problem, 8))
    counts = (8, 4, 1) if is_eight else (4, 1)
    return next(count for count in counts if not any(place % count for place in places))


def _is_aligned(problem: PoolingProblem, four: int) -> bool:
    """Return whether rows of x are loaded so many columns at a time, all of them inside or beside.

    Windows side by side in float32 share their columns: that takes as long one by one.
    """
    x = problem.operand("x")
    if problem.dtype.size > 2 and problem.window.stride[-1] == 1:
        return False
    axis = len(x.shape) - 1
    return not any(place % four for place in (x.shape[axis], *_steps_beside(x, axis)))


def _steps_beside(operand: Operand, inner: int) -> tuple[int, ...]:
    """Return the steps of the other axes, as far as they are met."""
    return tuple(
        step
        for axis, step in enumerate(operand.strides)
        if axis != inner and operand.shape[axis] > 1
    )


def _known(window: Window) -> dict[str, str | int]:
    """Return the macros of a window in three axes that is known when kernels are compiled."""
    return {
        f"{word}_{axis}": numbers[at]
        for at, axis in ((1, "H"), (2, "W"))
        for word, numbers in (
            *(("TAPS", window.size), ("STRIDE", window.stride), ("GAP", window.dilation)),
        )
    }


def _chunk(window: Window, pitch: int = 1) -> int:
    """Return how many windows one filling of the buffer is enough for."""
    stride, reach = window.stride[-1], window.reach(len(window.size) - 1)
    if pitch > 1:
        return (_BUFFER // pitch - reach) // stride
    return (_BUFFER - _SLACK - reach - VECTOR * stride) // stride // VECTOR * VECTOR


def _shares(problem: PoolingProblem, pitch: int) -> tuple[int, int]:
    """Return the windows of a row that a filling of the buffer is for, and the rows of y in it."""
    window, columns = problem.window, problem.result.shape[-1]
    chunk = _chunk(window, pitch)
    if pitch > 1 or columns > chunk:
        # Fillings of equal size, so that none is left with a few.
        chunks = -(-columns // chunk)
        equal = -(-columns // chunks)
        return (equal if pitch > 1 else -(-equal // VECTOR) * VECTOR), 1
    reach = window.reach(len(window.size) - 1)
    width = max(columns, VECTOR) * window.stride[-1] + reach
    # The last vectors of a row read what lies behind it.
    pitch_of_row = width + _SLACK + VECTOR * window.stride[-1]
    return chunk, max(min(_BUFFER // (-(-pitch_of_row // VECTOR) * VECTOR), _MOST_AT_ONCE), 1)


def _macros(problem: PoolingProblem, target: Target) -> dict[str, str | int]:
    return {
        **streamed(problem.dtype, problem.result.elements, target),
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
