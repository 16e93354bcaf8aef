"""The reference convolution: NumPy in float64, every direction and epilogue, exact for int8.

Tensors are arrays with their axes in the order of their layout in memory (N, H, W, C for NHWC).
The three directions share one view of the work: for each tap of the filter, the part of the padded
data that it meets is a strided view with as many positions as y. A block of taps gathered into one
matrix turns into one matrix product for each group, so that BLAS does the arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from convfind.checking.pieces import side_by_side, slices_of
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import DataType, Direction

Array = np.ndarray[Any, Any]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Tap = tuple[slice | EllipsisType, ...]

#: Elements of the largest gathered matrix: 128 MiB.
BLOCK_ELEMENTS = 2**24
#: Results that one thread finishes.
_FINISHED_AT_ONCE = 2**19


@dataclass(frozen=True, slots=True, eq=False)
class Right:
    """The right result of a problem, axes in the order of its layout."""

    result: Array
    yardstick: Array | None = None  # see `checking.accuracy.measure_error`
    is_rounded: bool = False  # to the type of the result

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


def finished_result(
    problem: ConvProblem, convolved: Array, z: Array | None = None, bias: Array | None = None
) -> Right:
    """Compute the same of a rounded result of ``problem.without_epilogue()``, whoever has it."""
    if problem == problem.without_epilogue():
        return Right(convolved, is_rounded=True)
    beta = problem.beta if problem.add and not problem.add_last else 0.0

    def finished(images: slice) -> Right:
        few = problem.with_batch(images.stop - images.start)
        added = None if z is None else z[images]
        sums = _with_addends(few, convolved[images].astype(np.float64), beta, added, bias)
        return Right.of(few, _stored(few, sums), added, is_rounded=True)

    some = max(1, _FINISHED_AT_ONCE // max(math.prod(convolved.shape[1:]), 1))
    parts = side_by_side(finished, slices_of(len(convolved), some))
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
    absolute = np.abs(_doubles(first)), np.abs(_doubles(second))
    before, added = (None if one is None else np.abs(_doubles(one)) for one in (out, bias))
    magnitude = _scaled(problem, abs(problem.alpha), absolute)
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
    result = _convolve(problem.plain(), logical)
    if alpha != 1.0:
        result *= alpha
    if problem.tensor_layout(writes).channels_last:
        result = np.moveaxis(result, 1, -1)
    return np.ascontiguousarray(result)


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
        result += _doubles(bias).reshape(-1, *(() if last else (1,) * problem.spatial_rank))
    return _with_z(problem, result, beta, out)


def _with_z(problem: ConvProblem, result: Doubles, beta: float, out: Array | None) -> Doubles:
    """Add what lies in the result, or z, to a result."""
    if beta != 0.0:
        writes = problem.direction.writes
        if out is None:
            raise ProblemError("out", None, f"the previous contents of {writes}, as beta is {beta}")
        _check_shape(problem, writes, out)
        result += beta * _doubles(out)
    return result


def _doubles(array: Array) -> Doubles:
    return np.asarray(array).astype(np.float64, copy=False)


def _to_logical(problem: ConvProblem, name: str, array: Array) -> Array:
    _check_shape(problem, name, array)
    array = np.asarray(array)
    return np.moveaxis(array, -1, 1) if problem.tensor_layout(name).channels_last else array


def _check_shape(problem: ConvProblem, name: str, array: Array) -> None:
    layout = problem.tensor_layout(name)
    expected = layout.to_memory(problem.shape(name))
    if np.shape(array) != expected:
        raise ProblemError(name, np.shape(array), f"shape {expected} in layout {layout.value}")


def _convolve(problem: ConvProblem, tensors: dict[str, Array]) -> Doubles:
    """Compute a plain problem, all tensors in N, C, spatial order, in their own types.

    Operands become float64 block by block, in memory that each block uses again:
    fresh pages cost more than the arithmetic.
    """
    if problem.direction is Direction.FORWARD:
        return _forward(problem, tensors["x"], tensors["w"])
    if problem.direction is Direction.BACKWARD_DATA:
        return _backward_data(problem, tensors["y"], tensors["w"])
    return _backward_weights(problem, tensors["x"], tensors["y"])


def _forward(problem: ConvProblem, x: Array, w: Array) -> Doubles:
    filters = _filters(problem, w)
    y = np.zeros(_grouped_shape(problem, "y"))
    for batch, taps, views in _blocks(problem):
        data = _pad(problem, _grouped(problem, "x", x[batch]))
        part = y[:, :, batch]
        product = filters[..., taps].reshape(problem.groups, part.shape[1], -1) @ _gather(
            data, views
        )
        part += product.reshape(part.shape)
    return _ungrouped(problem, "y", y)


def _backward_data(problem: ConvProblem, y: Array, w: Array) -> Doubles:
    filters = _filters(problem, w)
    x = np.zeros(_grouped_shape(problem, "x"))
    for batch, group in itertools.groupby(_blocks(problem), key=lambda block: block[0]):
        gradient = _grouped(problem, "y", y[batch])
        columns = _columns(gradient)
        padded = _pad(problem, x[:, :, batch])
        for _, taps, views in group:
            block = filters[..., taps]
            rows = block.reshape(*block.shape[:2], -1).swapaxes(1, 2) @ columns
            each = rows.reshape(*block.shape[0:1], block.shape[2], len(views), *gradient.shape[2:])
            for index, view in enumerate(views):
                padded[view] += each[:, :, index]
        x[:, :, batch] = padded[_interior(problem)]
    return _ungrouped(problem, "x", x)


def _backward_weights(problem: ConvProblem, x: Array, y: Array) -> Doubles:
    shape = problem.w_shape
    filters = np.zeros(
        (problem.groups, shape[0] // problem.groups, shape[1], math.prod(problem.filter))
    )
    for batch, taps, views in _blocks(problem):
        data = _pad(problem, _grouped(problem, "x", x[batch]))
        columns = _columns(_grouped(problem, "y", y[batch]))
        part = filters[..., taps]
        part += (columns @ _gather(data, views).swapaxes(1, 2)).reshape(part.shape)
    return filters.reshape(shape)


def _blocks(problem: ConvProblem) -> Iterator[tuple[slice, slice, list[Tap]]]:
    """Cut the work: some images, some taps by number, and the taps' views of the padded data."""
    views = [_view(problem, tap) for tap in np.ndindex(problem.filter)]
    one = problem.x_shape[1] * math.prod(problem.y_shape[2:])
    images = max(1, min(problem.x_shape[0], BLOCK_ELEMENTS // one))
    taps = max(1, min(len(views), BLOCK_ELEMENTS // (one * images)))
    for image in range(0, problem.x_shape[0], images):
        for tap in range(0, len(views), taps):
            yield slice(image, image + images), slice(tap, tap + taps), views[tap : tap + taps]


def _view(problem: ConvProblem, tap: tuple[int, ...]) -> Tap:
    positions = (
        slice(at * dilation, at * dilation + (size - 1) * step + 1, step)
        for at, dilation, size, step in zip(
            tap, problem.dilation, problem.y_shape[2:], problem.stride, strict=True
        )
    )
    return (..., *positions)


def _columns(data: Array) -> Doubles:
    """Return the matrix (groups, channels, images * positions)."""
    return np.ascontiguousarray(data, np.float64).reshape(*data.shape[:2], -1)


def _gather(data: Array, views: list[Tap]) -> Doubles:
    """Return the matrix (groups, channels * taps, images * positions)."""
    if len(views) == 1:
        return _columns(data[views[0]])
    shape = data[views[0]].shape
    gathered = np.empty((*shape[:2], len(views), *shape[2:]))
    for index, view in enumerate(views):
        gathered[:, :, index] = data[view]
    return gathered.reshape(shape[0], shape[1] * len(views), -1)


def _grouped_shape(problem: ConvProblem, name: str) -> tuple[int, ...]:
    batch, channels, *spatial = problem.shape(name)
    return (problem.groups, channels // problem.groups, batch, *spatial)


def _grouped(problem: ConvProblem, name: str, tensor: Array) -> Array:
    """Reorder N, C, spatial into groups, channels of a group, N, spatial."""
    _, channels, _, *spatial = _grouped_shape(problem, name)
    split = tensor.reshape(tensor.shape[0], problem.groups, channels, *spatial)
    return np.moveaxis(split, 0, 2)


def _ungrouped(problem: ConvProblem, name: str, tensor: Doubles) -> Doubles:
    return np.moveaxis(tensor, 2, 0).reshape(problem.shape(name))


def _filters(problem: ConvProblem, w: Array) -> Doubles:
    """Reorder weights into groups, output channels of a group, channels of a group, taps."""
    out, channels = problem.w_shape[:2]
    return _doubles(w).reshape(problem.groups, out // problem.groups, channels, -1)


def _pad(problem: ConvProblem, data: Array) -> Array:
    if not any(problem.padding) and not any(problem.padding_end):
        return data
    spatial = zip(problem.padding, problem.padding_end, strict=True)
    return np.pad(data, ((0, 0), (0, 0), (0, 0), *spatial))


def _interior(problem: ConvProblem) -> Tap:
    inside = (
        slice(begin, begin + size)
        for begin, size in zip(problem.padding, problem.x_shape[2:], strict=True)
    )
    return (..., *inside)
