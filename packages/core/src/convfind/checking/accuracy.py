"""The meaning of "right": measures of error, and their bounds with derivation.

Measures
--------
``max_error`` is the largest error of an element, relative to the sum of the absolute values of the
products behind that element (`checking.reference.reference_magnitude`). Rounding errors are
proportional to that sum, so a wrong element is seen however small it is beside the others, and
cancellation inside a sum is no error. ``rms_error`` is the RMS of all errors relative to the RMS of
the reference: it sees errors that are small but everywhere. An error of one subnormal step of the
result's type counts as none, because down there no relative bound holds.

Bounds
------
To first order the error of a sum of n products is a sum of n terms, each at most u (the unit
roundoff) times the magnitude. If their signs are independent, it stays below L sqrt(n) u times the
magnitude except with probability 2 exp(-L^2 / 2), by Hoeffding's inequality. Higham and Mary, "A
new approach to probabilistic rounding error analysis" (2019), treat all orders. It never exceeds
n u. With s = n + 3 roundings (3 for the two products and the sum of alpha and beta) and L = 5:

    term          max_error                  rms_error        what it covers
    accumulation  min(s, 5 sqrt(s)) u        sqrt(s) u        sums in float32 (float64: in float64)
    TF32 inputs   2 * 2^-11                  2 * 2^-11        both factors rounded, where allowed
    result        u_y                        u_y              one rounding to the result's type
    activation    r u                        r u              the activation's own roundings
    reference     min(s, 5 sqrt(s)) 2^-53    sqrt(s) 2^-53    the reference's own error

    bound = factor * (accumulation + TF32 inputs) + activation + result + reference

A bias is one rounding more. An activation multiplies errors by its slope, at most by its largest
one, and does not change what they are relative to otherwise: with it, errors are relative to that
slope times the magnitude of its argument, plus what it makes of 0, and the magnitude of what is
added behind it.

A large problem's reference may come from a device, in the result's type: then u_y counts twice. So
it does where a result lies in memory, rounded, before a step of its own completes it.

A reference of few elements may happen to be nearly 0 as a whole: m normally distributed ones have
an RMS of less than a share e of the usual with a probability of about e^m. So for the RMS of m
results all terms but the result's are multiplied by 10^(4/m), which leaves a chance of 1e-4.

L = 5 leaves a chance of 7e-6 to an element all of whose roundings are of the largest size and meet
the largest partial sum. Where all products have one sign, partial sums grow evenly and roundings
spread evenly up to u, so the standard deviation is sqrt(n) u / 3: then 5 sqrt(n) u is 15 of them.
For the RMS, random signs give sqrt(n / 6) u, one sign sqrt(n) u / 3: both below sqrt(s) u.

    type of x and w   u        u_y
    float64           2^-53    2^-53
    float32           2^-24    2^-24
    float16           2^-24    2^-11
    bfloat16          2^-24    2^-8
    int8              0        0 in int32, 2^-24 in float32

Inputs carry no error: the reference gets them in the same type. int8 sums are exact; only alpha and
beta, which are applied in float32, add 3 * 2^-24.

``factor`` is what an algorithm adds of its own (`Solver.error_bound`): transforms amplify the
errors of the accumulation, not the last rounding. An algorithm that keeps intermediate results in a
narrow type, or sums with truncation, states a factor that covers it. It has a limit, since a bound
that allows everything checks nothing:

    factor <= 32 + slack / (min(s, 5 sqrt(s)) u)

32 is far above what transforms need where sums are long. Where they are short, a transform's own
roundings outweigh theirs, and narrow types are what products may be rounded to: that is the slack,
2^-14 for float32, 2^-43 for float64, 8 u_y for the narrow ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from convfind.checking.pieces import side_by_side, slices_of
from convfind.errors import SolverError
from convfind.problem import ConvProblem
from convfind.solver import Solver, asking
from convfind.types import DataType

Array = np.ndarray[Any, Any]

ROUNDING_SPREAD = 5.0  # L above
SCALING_ROUNDINGS = 3
BIAS_ROUNDINGS = 1
UNIT_ROUNDOFF = {
    DataType.FLOAT64: 2.0**-53,
    DataType.FLOAT32: 2.0**-24,
    DataType.FLOAT16: 2.0**-11,
    DataType.BFLOAT16: 2.0**-8,
    DataType.INT8: 0.0,
    DataType.INT32: 0.0,
}
TF32_ROUNDOFF = 2.0**-11
#: The largest factor of a solver where sums are long, and what errors may be where they are short.
LARGEST_FACTOR = 32.0
_SLACK = {
    DataType.FLOAT64: 2.0**-43,
    DataType.FLOAT32: 2.0**-14,
    DataType.FLOAT16: 2.0**-8,
    DataType.BFLOAT16: 2.0**-5,
    DataType.INT8: 0.0,
}
#: Elements that are compared at a time: few enough for a core's cache, and enough that threads
#: rarely wait for each other's turn with Python.
_BLOCK = 1 << 15
#: Elements that one thread compares.
_MEASURED_AT_ONCE = 1 << 19
#: So many subnormal steps are so much that one more or less makes no difference.
_FAR = 2.0**20


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """Relative errors, measured or allowed. Records and tables show ``max_error``."""

    max_error: float
    rms_error: float

    def __str__(self) -> str:
        return f"max {self.max_error:.2g}, rms {self.rms_error:.2g}"


class Checked(NamedTuple):
    """The errors of a run that was checked, and its milliseconds of device time."""

    error: ErrorReport
    time_ms: float


INFINITE_ERROR = ErrorReport(math.inf, math.inf)


class Size(NamedTuple):
    """How large numbers are: the largest absolute value of them, and the sum of their squares."""

    largest: float
    squares: float

    @classmethod
    def of(cls, numbers: Array) -> Size:
        """Measure numbers of any type."""
        flat = np.ravel(numbers)

        def measured(piece: slice) -> Size:
            part = flat[piece].astype(np.float64, copy=False)
            return cls(_largest(part), _squares(part))

        found = side_by_side(measured, slices_of(flat.size, _BLOCK))
        largest = max((one.largest for one in found), default=0.0)
        return cls(largest, math.fsum(one.squares for one in found))


def measure_error(
    result: Array,
    reference: Array,
    magnitude: Array | None = None,
    yardstick: Size | None = None,
) -> ErrorReport:
    """Measure a result against the reference.

    Args:
        result: what was computed, in its own type, which decides about subnormal steps.
        reference: what is right.
        magnitude: elementwise scale of ``max_error``, see `reference_magnitude`; without it the
            largest absolute value of the reference is the scale of all elements. This is good
            enough for hundreds of results on random data; fewer can all be nearly 0 by chance.
        yardstick: in place of the reference's, the size that errors are relative to: where an
            activation changes how large results are, but not how large their errors are.

    Returns:
        The errors: infinite for another shape, for NaN and infinity, and for an element that should
        be exactly 0 and is not.
    """
    if np.shape(result) != np.shape(reference):
        return INFINITE_ERROR
    got, right = np.ravel(result), np.ravel(reference)
    scales = None if magnitude is None else np.ravel(magnitude)
    step = subnormal_step(got.dtype)

    def measured(piece: slice) -> _Errors | None:
        scale = None if scales is None else scales[piece]
        return _errors_of(got[piece], right[piece], scale, step)

    found = side_by_side(measured, slices_of(got.size, _MEASURED_AT_ONCE))
    finite = [one for one in found if one is not None]
    if len(finite) < len(found):
        return INFINITE_ERROR
    largest, ratio = (max((one[at] for one in finite), default=0.0) for at in range(2))
    size = Size.of(right) if yardstick is None else yardstick
    if scales is None:
        ratio = relative_error(largest, size.largest)
    squares = sum(one.squares for one in finite)
    return ErrorReport(ratio, relative_error(math.sqrt(squares), math.sqrt(size.squares)))


class _Errors(NamedTuple):
    """How large errors are."""

    largest: float
    ratio: float  # of an error to its own scale
    squares: float


def _errors_of(got: Array, right: Array, scales: Array | None, step: float) -> _Errors | None:
    """Measure part of a result; None where something is not finite."""
    largest = largest_ratio = squares = 0.0
    memory = np.empty(min(got.size, _BLOCK))  # once: fresh pages cost more than what is done there
    for block in slices_of(got.size, _BLOCK):
        error = memory[: block.stop - block.start]
        error[...] = got[block]
        with np.errstate(invalid="ignore"):
            error -= right[block].astype(np.float64, copy=False)
        most = _largest(error)
        if not math.isfinite(most):
            return None
        if scales is not None or most <= _FAR * step:  # else steps are lost beside it
            error[np.abs(error) <= step] = 0.0
            most = _largest(error)
        largest = max(most, largest)
        squares += _squares(error)
        if scales is not None:
            largest_ratio = max(largest_ratio, _largest_ratio(np.abs(error), scales[block]))
    return _Errors(largest, largest_ratio, squares)


def spread_magnitude(magnitude: Array, reach: int, *, channels_last: bool) -> Array:
    """Return the largest magnitude within ``reach`` elements along each spatial axis.

    Errors of algorithms on tiles are relative to it: see `Solver.error_reach`.
    """
    first = 1 if channels_last else 2
    for axis in range(first, first + magnitude.ndim - 2):
        along = np.moveaxis(magnitude, axis, 0)
        spread = along.copy()
        for step in range(1, min(reach, len(along) - 1) + 1):
            np.maximum(spread[step:], along[:-step], out=spread[step:])
            np.maximum(spread[:-step], along[step:], out=spread[:-step])
        magnitude = np.moveaxis(spread, 0, axis)
    return magnitude


def _largest(values: Array) -> float:
    """The largest absolute value, without a copy; NaN where one is."""
    return max(float(values.max()), -float(values.min()))


def _squares(values: Array) -> float:
    """The sum of squares. Not by BLAS, whose own threads would wait for those that call it."""
    return float(np.einsum("i,i", values, values))


def _largest_ratio(error: Array, scale: Array) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error > 0.0, error / scale, 0.0)
    return float(ratio.max(initial=0.0))


def relative_error(error: float, scale: float) -> float:
    """Return an error relative to a scale: 0 where there is none, whatever the scale."""
    if error == 0.0:
        return 0.0
    return error / scale if scale > 0.0 else math.inf


def subnormal_step(dtype: np.dtype[Any]) -> float:
    """Return the distance of a type's smallest numbers; 0 for whole numbers."""
    if dtype.kind in "iu":
        return 0.0
    if dtype.kind == "f":
        return float(np.finfo(dtype).smallest_subnormal)
    import ml_dtypes  # NumPy does not know the limits of the types of ml_dtypes

    return float(ml_dtypes.finfo(dtype).smallest_subnormal)  # type: ignore[no-untyped-call]


def error_bound(
    problem: ConvProblem, factor: float = 1.0, *, result_roundings: int = 1
) -> ErrorReport:
    """Return the errors that a correct computation of a problem may have; see the module's text.

    ``result_roundings`` count how often a result, or what it is compared with, is rounded to the
    type of results.
    """
    roundings, largest = _roundings(problem)
    few = 10.0 ** (4.0 / math.prod(problem.shape(problem.direction.writes)))
    typical = few * math.sqrt(roundings)
    result = UNIT_ROUNDOFF[problem.tensor_dtype(problem.direction.writes)]
    result *= result_roundings
    reference = UNIT_ROUNDOFF[DataType.FLOAT64]
    if problem.activation is not None:
        result += problem.activation.roundings * _unit_of_sums(problem)
    if problem.dtype is DataType.INT8:
        is_exact = problem.has_default_scaling and not (problem.bias and problem.y_dtype.is_float)
        roundings = SCALING_ROUNDINGS + BIAS_ROUNDINGS * problem.bias
        scaling = 0.0 if is_exact else roundings * 2.0**-24
        return ErrorReport(scaling + result, scaling + result)
    unit = _unit_of_sums(problem)
    inputs = 2.0 * TF32_ROUNDOFF if problem.allow_tf32 else 0.0
    return ErrorReport(
        factor * (largest * unit + inputs) + result + largest * reference,
        factor * (typical * unit + few * inputs) + result + typical * reference,
    )


def bound_of(
    solver: Solver, problem: ConvProblem, *, rounded_reference: bool = False
) -> ErrorReport:
    """Return the errors that a solver's result of a plain problem may have.

    Raises:
        SolverError: the solver asks for more than `largest_factor`.
    """
    factor, most = asking.error_bound(solver, problem), largest_factor(problem)
    if factor > most:
        detail = f"error_bound is {factor:.3g}; for {problem.reduction} products of {problem.dtype}"
        raise SolverError(solver.solver_id, f"{detail} it may be {most:.3g} at most")
    roundings = asking.result_roundings(solver) + rounded_reference
    return error_bound(problem, factor, result_roundings=roundings)


def largest_factor(problem: ConvProblem) -> float:
    """Return the largest factor that a solver may ask for; see the module's text."""
    _, largest = _roundings(problem)
    return LARGEST_FACTOR + _SLACK[problem.dtype] / (largest * _unit_of_sums(problem))


def _roundings(problem: ConvProblem) -> tuple[int, float]:
    """The roundings behind a result, and how many may add up to one side."""
    roundings = problem.reduction + SCALING_ROUNDINGS + BIAS_ROUNDINGS * problem.bias
    return roundings, min(roundings, ROUNDING_SPREAD * math.sqrt(roundings))


def _unit_of_sums(problem: ConvProblem) -> float:
    wide = DataType.FLOAT64 if problem.dtype is DataType.FLOAT64 else DataType.FLOAT32
    return UNIT_ROUNDOFF[wide]


def check_error(report: ErrorReport, bound: ErrorReport) -> bool:
    """Say whether a measured error is within a bound, elementwise and RMS."""
    return report.max_error <= bound.max_error and report.rms_error <= bound.rms_error
