"""The reference convolution: NumPy in float64, every direction and epilogue, exact for int8.

Tensors are arrays with their axes in the order of their layout in memory (N, H, W, C for NHWC).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convfind.cached import cached_property
from convfind.checking.accuracy import ErrorReport, Size, measure_error
from convfind.checking.pieces import in_parts, side_by_side, slices_of
from convfind.checking.plain_convolution import Array, Doubles, convolve, doubles
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import DataType

#: Results that one thread finishes.
_FINISHED_AT_ONCE = 2**19


@dataclass(frozen=True, eq=False)
class Right:
    """The right result of a problem, axes in the order of its layout."""

    result: Array
    yardstick: Array | None = None  # what errors are relative to; None: the result
    is_rounded: bool = False  # to the type of the result

    @cached_property
    def size(self) -> Size:
        """The size that errors are relative to."""
        return Size.of(self.result if self.yardstick is None else self.yardstick)

    def error_of(self, result: Array, magnitude: Array | None = None) -> ErrorReport:
        """Measure how far a result is off: see `checking.accuracy.measure_error`."""
        return measure_error(result, self.result, magnitude, self.size)

    @classmethod
    def of(
        cls, problem: ConvProblem, sums: Array, z: Array | None, *, is_rounded: bool = False
    ) -> Right:
        """Return what is right where sums lack the activation and what is added behind it."""
        if problem.activation is None:
            return cls(sums, None, is_rounded)
        yardstick = _magnified(problem, np.abs(sums), z)
        return cls(_finished(problem, sums, z), yardstick, is_rounded)


def reference_convolution(
    problem: ConvProblem,
    first: Array,
    second: Array,
    out: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Compute a problem in float64: ``activation(alpha * convolution + bias + beta * out)``.

    With ``add_last`` it is ``activation(alpha * convolution + bias) + beta * out``.

    Args:
        problem: what to compute; strides do not matter here.
        first: first tensor of ``problem.direction.reads``, axes in the order of its layout.
        second: second of them.
        out: previous contents of the result, or z; read only where beta is not 0.
        bias: read only where the problem has one.

    Returns:
        The result, axes in the order of its layout: float64, or int32 where the result is int32.

    Raises:
        ProblemError: a tensor does not have the shape that the problem says, or is missing.
    """
    return _finished(problem, _sums(problem, first, second, out, bias), out)


def right_result(
    problem: ConvProblem,
    first: Array,
    second: Array,
    out: Array | None = None,
    bias: Array | None = None,
) -> Right:
    """Compute the same, and what errors of large results are relative to."""
    return Right.of(problem, _sums(problem, first, second, out, bias), out)


def finished_result(problem: ConvProblem, sums: Array, z: Array | None = None) -> Right:
    """Compute the same of a rounded result of ``problem.without_activation()``, whoever has it."""
    if problem.activation is None:
        return Right(sums, is_rounded=True)

    def finished(images: slice) -> Right:
        added = None if z is None else z[images]
        few = sums[images] if sums.dtype.kind == "i" else sums[images].astype(np.float64)
        return Right.of(problem.with_batch(len(few)), few, added, is_rounded=True)

    some = max(1, _FINISHED_AT_ONCE // max(math.prod(sums.shape[1:]), 1))
    parts = side_by_side(finished, slices_of(len(sums), some))
    yardsticks = [part.yardstick for part in parts if part.yardstick is not None]
    result = np.concatenate([part.result for part in parts])
    return Right(result, np.concatenate(yardsticks) if yardsticks else None, is_rounded=True)


def _sums(
    problem: ConvProblem,
    first: Array,
    second: Array,
    out: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Compute what the activation is applied to."""
    result = _scaled(problem, problem.alpha, (first, second))
    beta = 0.0 if problem.add_last else problem.beta
    return _stored(problem, _with_addends(problem, result, beta, out, bias))


def _finished(problem: ConvProblem, sums: Array, z: Array | None) -> Array:
    """Apply the activation, and add what is added behind it."""
    if problem.activation is None:
        return sums
    result = problem.activation(sums)
    return _with_z(problem, result, problem.beta, z) if problem.add_last else result


def _stored(problem: ConvProblem, result: Doubles) -> Array:
    if problem.tensor_dtype(problem.direction.writes) is DataType.INT32:
        # Sums of int8 products are exact in float64; like the devices' sums they wrap in int32.
        return result.astype(np.int64).astype(np.int32)
    return result


def reference_magnitude(
    problem: ConvProblem,
    first: Array,
    second: Array,
    out: Array | None = None,
    bias: Array | None = None,
) -> Doubles:
    """Compute the same sums over absolute values: what rounding errors are proportional to.

    An activation multiplies errors by its slope, and has errors of its own.
    """
    absolute = np.abs(doubles(first)), np.abs(doubles(second))
    return finished_magnitude(problem, _scaled(problem, problem.alpha, absolute), out, bias)


def finished_magnitude(
    problem: ConvProblem, convolved: Array, out: Array | None = None, bias: Array | None = None
) -> Doubles:
    """Compute the same of ``alpha`` times the convolution of absolute values, whoever has it."""
    before, added = (None if one is None else np.abs(doubles(one)) for one in (out, bias))
    magnitude = np.abs(convolved.astype(np.float64))
    beta = 0.0 if problem.add_last else abs(problem.beta)
    return _magnified(problem, _with_addends(problem, magnitude, beta, before, added), before)


def _magnified(problem: ConvProblem, magnitude: Doubles, z: Array | None) -> Doubles:
    """Return what errors of results are relative to where this is so of their sums."""
    if problem.activation is None:
        return magnitude
    slope = problem.activation.largest_slope(float(magnitude.max(initial=0.0)))
    magnitude = slope * magnitude + np.abs(problem.activation(0.0))
    if not problem.add_last:
        return magnitude
    return _with_z(problem, magnitude, abs(problem.beta), None if z is None else np.abs(z))


def _scaled(problem: ConvProblem, alpha: float, tensors: tuple[Array, Array]) -> Doubles:
    writes = problem.direction.writes
    reads = dict(zip(problem.direction.reads, tensors, strict=True))
    logical = {
        problem.plain_name(name): _to_logical(problem, name, array) for name, array in reads.items()
    }
    result = convolve(problem.plain(), logical)
    if alpha != 1.0:
        result *= alpha
    if problem.tensor_layout(writes).channels_last:
        result = np.moveaxis(result, 1, -1)
    packed = np.empty(result.shape)
    in_parts(np.copyto, packed, result)
    return packed


def _with_addends(
    problem: ConvProblem, result: Doubles, beta: float, out: Array | None, bias: Array | None
) -> Doubles:
    """Add to a result, whose axes are in the order of its layout, what is added to it."""
    writes = problem.direction.writes
    if problem.bias:
        if bias is None:
            raise ProblemError("bias", None, "a tensor: the problem has a bias")
        _check_shape(problem, "bias", bias)
        last = problem.tensor_layout(writes).channels_last
        result += doubles(bias).reshape(-1, *(() if last else (1,) * problem.spatial_rank))
    return _with_z(problem, result, beta, out)


def _with_z(problem: ConvProblem, result: Doubles, beta: float, out: Array | None) -> Doubles:
    """Add what lies in the result, or z, to a result."""
    if beta != 0.0:
        writes = problem.direction.writes
        if out is None:
            raise ProblemError("out", None, f"the previous contents of {writes}, as beta is {beta}")
        _check_shape(problem, writes, out)
        result += beta * doubles(out)
    return result


def _to_logical(problem: ConvProblem, name: str, array: Array) -> Array:
    _check_shape(problem, name, array)
    array = np.asarray(array)
    return np.moveaxis(array, -1, 1) if problem.tensor_layout(name).channels_last else array


def _check_shape(problem: ConvProblem, name: str, array: Array) -> None:
    layout = problem.tensor_layout(name)
    expected = layout.to_memory(problem.shape(name))
    if np.shape(array) != expected:
        raise ProblemError(name, np.shape(array), f"shape {expected} in layout {layout.value}")
