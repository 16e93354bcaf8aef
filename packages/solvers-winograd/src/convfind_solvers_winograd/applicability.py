"""The demands of every Winograd solver on a problem."""

from __future__ import annotations

from functools import cache
from math import sqrt

from convfind.checking.accuracy import ROUNDING_SPREAD, SCALING_ROUNDINGS
from convfind.problem import PACKED_TRAITS, ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Domain, Reason, Rejected
from convfind.types import AccuracyClass, DataType, Direction
from convfind_solvers_winograd.cook_toom import Transform

#: The domain of all transforms; each is for filters with stride 1, or with stride 2.
DOMAIN = Domain(dtypes=(DataType.FLOAT32,), ranks=(2,), traits=PACKED_TRAITS - {Trait.STRICT})
#: Channels-first tiles are cut from patches of rows in the private memory of CPUs.
MOST_DILATION = 16
#: From this growth of rounding errors, in TF32 of the products' alone, the problem must accept to
#: lose bits.
_RELAXED_GROWTH = 10.0
#: From this part of a plain sum's bound on, products must not be rounded to TF32.
_TF32_GROWTH = 3.2
#: The roundings of a single product: data, filter, product and result.
_ROUNDED = 4


def judge(
    problem: ConvProblem, direction: Direction, transform: Transform, axes: int = 2
) -> Applicability:
    """Judge window, strides and accuracy.

    A transform along one of two axes only is for filters of one row or one column.
    """
    # The results of a weight gradient's transform are the taps of the window.
    taps = transform.m if direction is Direction.BACKWARD_WEIGHTS else transform.r
    windows, others = _windows(taps, axes)
    if problem.filter[-2:] not in windows:
        return others
    if transform.spread and set(problem.stride) != {2}:
        return Rejected(Reason.STRIDE, "is for stride 2")
    if max(problem.dilation[-2:]) > MOST_DILATION:
        return Rejected(Reason.DILATION, f"is for a dilation of at most {MOST_DILATION}")
    if problem.has_idle_taps:
        return Rejected(Reason.PADDING, "taps that meet nothing but zeros")
    growth = error_factor(transform, axes)
    if growth > _RELAXED_GROWTH and problem.accuracy is not AccuracyClass.RELAXED:
        why = f"may have {growth:.0f} times the error of plain sums; accuracy=relaxed allows it"
        return Rejected(Reason.ACCURACY, f"F({transform.m}, {transform.r}) {why}")
    return APPLICABLE


@cache
def _windows(taps: int, axes: int) -> tuple[tuple[tuple[int, int], ...], Rejected]:
    """Return the filters of a transform, and the refusal of all others."""
    windows = ((taps, taps),) if axes == 2 else ((1, taps), (taps, 1))
    sizes = " and ".join(f"{rows}x{columns}" for rows, columns in windows)
    return windows, Rejected(Reason.FILTER_SIZE, f"is for {sizes} filters")


def error_factor(transform: Transform, axes: int = 2) -> float:
    """Factor by which rounding errors may exceed those of plain summation.

    The growth of the errors of the sums, over the axes and relative to r products of each, and one
    for the rounding of the transforms themselves, which weighs where there are few channels.
    """
    return 1.0 + (transform.growth / sqrt(transform.r)) ** axes


def multiplies_in_tf32(problem: ConvProblem, transform: Transform, axes: int = 2) -> bool:
    """Say whether products rounded to TF32 are allowed, and precise enough behind a transform.

    The bound allows a plain sum's error of TF32 times `error_factor`. A transform makes the
    roundings of its own factors grow by the growth along its axes; measured on an H200, 0.25 to
    0.32 of that is what errors are relative to the roundings that the bound counts.
    """
    grown = transform.growth**axes
    if grown > _RELAXED_GROWTH and problem.accuracy is not AccuracyClass.RELAXED:
        return False
    return problem.allow_tf32 and grown <= _TF32_GROWTH * error_factor(transform, axes)


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
