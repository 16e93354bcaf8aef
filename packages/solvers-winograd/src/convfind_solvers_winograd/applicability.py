"""What every Winograd solver asks of a problem."""

from __future__ import annotations

from functools import cache
from math import sqrt

from convfind.checking.accuracy import ROUNDING_SPREAD, SCALING_ROUNDINGS
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.types import AccuracyClass, DataType, Direction
from convfind_solvers_winograd.cook_toom import Transform

#: From this growth of rounding errors on, the problem must accept to lose bits.
_RELAXED_GROWTH = 10.0
#: What rounds a single product: data, filter, product and result.
_ROUNDED = 4


def judge(
    problem: ConvProblem,
    direction: Direction,
    transform: Transform,
    *,
    channels_last: bool,
    dtypes: tuple[DataType, ...] = (DataType.FLOAT32,),
    axes: int = 2,
    most_dilation: int = 1,
) -> Applicability:
    """Judge direction, type, layout, window and accuracy.

    Of a transform along one axis only, of two, filters have one row or one column.
    """
    if problem.direction is not direction:
        return Rejected(Reason.DIRECTION, f"{problem.direction} is not {direction}")
    if problem.dtype not in dtypes:
        return Rejected(Reason.DTYPE, f"is for {' and '.join(dtypes)}")
    # The results of a weight gradient's transform are the taps of the window.
    taps = transform.m if direction is Direction.BACKWARD_WEIGHTS else transform.r
    windows, others = _windows(taps, axes)
    if problem.filter not in windows:
        return others
    stride = 2 if transform.spread else 1
    if set(problem.stride) != {stride}:
        return Rejected(Reason.STRIDE, f"is for stride {stride}")
    if max(problem.dilation) > most_dilation:
        return Rejected(Reason.DILATION, f"is for a dilation of at most {most_dilation}")
    if not problem.layouts_agree or problem.x_layout.channels_last is not channels_last:
        return Rejected(
            Reason.LAYOUT, f"x, w and y must all be channels {'last' if channels_last else 'first'}"
        )
    if not problem.is_packed:
        return Rejected(Reason.NON_PACKED)
    if problem.has_idle_taps:
        return Rejected(Reason.PADDING, "taps that meet nothing but zeros")
    return _judge_accuracy(problem, transform, axes)


@cache
def _windows(taps: int, axes: int) -> tuple[tuple[tuple[int, int], ...], Rejected]:
    """Return the filters of a transform, and the refusal of all others."""
    windows = ((taps, taps),) if axes == 2 else ((1, taps), (taps, 1))
    sizes = " and ".join(f"{rows}x{columns}" for rows, columns in windows)
    return windows, Rejected(Reason.FILTER_SIZE, f"is for {sizes} filters")


def _judge_accuracy(problem: ConvProblem, transform: Transform, axes: int) -> Applicability:
    growth = error_factor(transform, axes)
    if problem.accuracy is AccuracyClass.STRICT:
        why = "transforms, and accuracy=strict wants the direct formula"
    elif growth > _RELAXED_GROWTH and problem.accuracy is not AccuracyClass.RELAXED:
        why = f"may have {growth:.0f} times the error of plain sums; accuracy=relaxed allows it"
    else:
        return APPLICABLE
    return Rejected(Reason.ACCURACY, f"F({transform.m}, {transform.r}) {why}")


def error_factor(transform: Transform, axes: int = 2) -> float:
    """Factor by which rounding errors may exceed those of plain summation.

    The growth of the errors of the sums, over the axes and relative to r products of each, and one
    for the rounding of the transforms themselves, which weighs where there are few channels.
    """
    return 1.0 + (transform.growth / sqrt(transform.r)) ** axes


def error_bound(transform: Transform, problem: ConvProblem, axes: int = 2) -> float:
    """Return `error_factor`, or more in sums so short that one product may exceed all others.

    Then errors are no longer those of many products, which partly cancel: roundings of data,
    filter, products and results get as large as `Transform.peak` along each axis allows.
    """
    roundings = problem.reduction + SCALING_ROUNDINGS
    plain = min(roundings, ROUNDING_SPREAD * sqrt(roundings))
    return max(error_factor(transform, axes), _ROUNDED * transform.peak**axes / plain)


def error_reach(transform: Transform) -> int:
    """How far an error spreads: to whatever shares data with the tile."""
    return transform.m + transform.r - 2
