"""A whole result checked at the cost of one channel: its channels are added up with random signs.

A convolution is linear. The sum of the channels of a result, each with a sign of its own, is what
the sum of the filters gives (of backward-weights: the sum of the gradient's channels), which takes
as many products as one channel. Nobody who computes a result knows the signs, so an error anywhere
in it stays in the sum, where those of rounding grow by the square root of the channels, as the
results do. Relative to the results the bounds are therefore those of `checking.accuracy`. Twice as
much is allowed, and 10^(4/m) times as much for m sums, which may all be nearly 0 by chance. So may
sums of any number if those of the filters are few, one for each tap and channel that is read: then
m counts these.

The products are formed another way than in `checking.reference`: first those of each tap with all
data, in one matrix product, then the sum of the taps, each of them moved to where it belongs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import numpy as np

from convfind.checking.accuracy import (
    ROUNDING_SPREAD,
    UNIT_ROUNDOFF,
    ErrorReport,
    check_error,
    measure_error,
)
from convfind.checking.pieces import side_by_side, slices_of
from convfind.checking.products import own_threads_only
from convfind.problem import ConvProblem
from convfind.settings import usable_cpus
from convfind.types import DataType, Direction

Array = np.ndarray[Any, Any]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Place = tuple[slice | EllipsisType, ...]

#: Products of taps with data that are in memory at a time: 4 MiB.
_BLOCK = 2**19
#: Results that are added up at a time: what they are converted to stays in a core's cache. Many
#: threads hold each other up between smaller pieces.
_RESULTS = 2**15 if usable_cpus() < 8 else 2**17
#: Results that one thread adds up.
_ADDED_AT_ONCE = 2**19
_SLACK = 2.0


class Checksum:
    """The sum of the channels of the right result of a plain problem, under random signs."""

    def __init__(
        self,
        problem: ConvProblem,
        first: Array,
        second: Array,
        before: Array | None,
        seed: int | None,
        bias: Array | None = None,
    ) -> None:
        """Draw signs and compute the sums.

        Args:
            problem: a plain problem, without activation.
            first: first tensor of ``problem.direction.reads``, axes in the order of its layout.
            second: second of them.
            before: previous contents of the result, or z; read only where beta is not 0.
            seed: of the signs; None for signs that nobody can know.
            bias: read only where the problem has one.
        """
        self._problem = problem
        channels = problem.w_shape[1 if self._is_backward_data else 0]
        channels *= problem.groups if self._is_backward_data else 1
        signs: Doubles = np.random.default_rng(seed).choice(np.array([-1.0, 1.0]), channels)
        self._signs = signs.reshape(problem.groups, -1)
        reads = dict(zip(problem.direction.reads, (first, second), strict=True))
        logical = {name: _logical(problem, name, array) for name, array in reads.items()}
        with own_threads_only():
            self._expected = problem.alpha * self._convolved(logical)
            if problem.beta and before is not None:
                self._expected += problem.beta * self._added_up(before)
        if problem.bias and bias is not None:
            self._expected += float(np.dot(signs, bias.astype(np.float64)))

    def error_of(self, result: Array) -> ErrorReport:
        """Measure how far the sums of a result, axes in the order of its layout, are off."""
        with own_threads_only():
            return measure_error(self._added_up(result), self._expected)

    def allows(self, error: ErrorReport, bound: ErrorReport) -> bool:
        """Say whether an error of the sums is within a bound for errors of the results."""
        added = self._problem.reduction + self._signs.size
        own = ROUNDING_SPREAD * math.sqrt(added) * UNIT_ROUNDOFF[DataType.FLOAT64]
        if self._problem.dtype is DataType.INT8:
            own = 0.0
        return check_error(error, _loosened(bound, self._independent, own))

    @property
    def _independent(self) -> int:
        """How many of the numbers that chance makes are behind the sums: what is added up first."""
        problem = self._problem
        added_up = "y" if problem.direction is Direction.BACKWARD_WEIGHTS else "w"
        each = math.prod(problem.shape(added_up)) * problem.groups // self._signs.size
        return min(each, self._expected.size)

    @property
    def _is_backward_data(self) -> bool:
        return self._problem.direction is Direction.BACKWARD_DATA

    def _added_up(self, result: Array) -> Doubles:
        """Sums over all channels: (images, spatial); of w, over those of a group: (groups, ...)."""
        problem = self._problem
        logical = _logical(problem, problem.direction.writes, result)
        if problem.direction is Direction.BACKWARD_WEIGHTS:
            return _signed(self._signs, logical)
        return self._over_channels(logical)

    def _over_channels(self, tensor: Array) -> Doubles:
        signs = self._signs.reshape(1, -1)
        some = max(1, _ADDED_AT_ONCE // max(math.prod(tensor.shape[1:]), 1))

        def added_up(images: slice) -> Doubles:
            return np.concatenate([_signed(signs, image) for image in tensor[images]])

        return np.concatenate(side_by_side(added_up, slices_of(len(tensor), some)))

    def _convolved(self, reads: dict[str, Array]) -> Doubles:
        if self._problem.direction is Direction.BACKWARD_WEIGHTS:
            return self._of_gradient(reads["x"], reads["y"])
        return self._of_filters(reads["y" if self._is_backward_data else "x"], reads["w"])

    def _of_filters(self, data: Array, w: Array) -> Doubles:
        """The sums where filters are added up: each tap times the data, moved and summed."""
        problem = self._problem
        taps = math.prod(problem.filter)
        grouped = w.reshape(problem.groups, -1, w.shape[1], taps).astype(np.float64)
        kind = "gc,gkct->tgk" if self._is_backward_data else "gk,gkct->tgc"
        filters = np.einsum(kind, self._signs, grouped).reshape(taps, -1)
        sums = np.zeros((len(data), *problem.shape(problem.direction.writes)[2:]))

        def add(images: slice) -> None:
            block = data[images].astype(np.float64, order="C")
            products = filters @ block.reshape(*block.shape[:2], -1)
            products = products.reshape(len(block), taps, *data.shape[2:])
            for tap, (of_x, of_y) in enumerate(_taps(problem)):
                source, place = (of_y, of_x) if self._is_backward_data else (of_x, of_y)
                sums[images][place] += products[:, tap][source]

        side_by_side(add, list(self._blocks(data, max(taps, data.shape[1]))))
        return sums

    def _of_gradient(self, x: Array, y: Array) -> Doubles:
        """The sums of backward-weights: the gradient's sum, moved for each tap, times the data."""
        problem, groups = self._problem, self._problem.groups
        taps = math.prod(problem.filter)

        def part(images: slice) -> Doubles:
            block = x[images].astype(np.float64, order="C")
            gradient = np.stack([_signed(self._signs, one) for one in y[images]])
            moved = np.zeros((len(block), groups, taps, *x.shape[2:]))
            for tap, (of_x, of_y) in enumerate(_taps(problem)):
                moved[:, :, tap][of_x] = gradient[of_y]
            flat = moved.reshape(*moved.shape[:3], -1)
            data = block.reshape(len(block), groups, -1, flat.shape[3])
            of_images: Doubles = (flat @ data.swapaxes(2, 3)).sum(axis=0)
            return of_images

        total = np.zeros((groups, taps, x.shape[1] // groups))
        for one in side_by_side(part, list(self._blocks(x, max(groups * taps, x.shape[1])))):
            total += one
        return total.swapaxes(1, 2).reshape(groups, -1, *problem.filter)

    def _blocks(self, data: Array, rows: int) -> Iterator[slice]:
        """Cut images into blocks, of each of which so many rows of positions are in memory."""
        images = max(1, _BLOCK // (rows * math.prod(data.shape[2:])))
        return (slice(image, image + images) for image in range(0, len(data), images))


def _loosened(bound: ErrorReport, count: int, more: float) -> ErrorReport:
    """Return a bound for so many numbers that may all be nearly 0 by chance."""
    few = 10.0 ** (4.0 / max(count, 1))
    return ErrorReport(
        few * (_SLACK * bound.max_error + more), few * (_SLACK * bound.rms_error + more)
    )


def _logical(problem: ConvProblem, name: str, array: Array) -> Array:
    return np.moveaxis(array, -1, 1) if problem.tensor_layout(name).channels_last else array


def _signed(signs: Doubles, tensor: Array) -> Doubles:
    """Add the channels of each group up, which are on the first axis, each with its sign."""
    groups, each = signs.shape
    shape = tensor.shape[1:]
    sums = np.zeros((groups, math.prod(shape)))
    if tensor.strides[0] == tensor.itemsize:  # channels last
        rows = np.moveaxis(tensor, 0, -1).reshape(-1, groups * each)
        for block in _pieces(len(rows), groups * each):
            part = rows[block].astype(np.float64).reshape(-1, groups, each)
            sums[:, block] = np.einsum("gk,pgk->gp", signs, part)
        return sums.reshape(groups, *shape)
    for some in _pieces(groups, each * sums.shape[1]):
        for channels in _pieces(each, sums.shape[1]):
            whole = tensor.reshape(groups, each, *shape)[some, channels]
            part = whole.astype(np.float64, order="C").reshape(*whole.shape[:2], -1)
            sums[some] += (signs[some, None, channels] @ part)[:, 0]
    return sums.reshape(groups, *shape)


def _pieces(count: int, size: int) -> Iterator[slice]:
    """Cut so many rows of a size into pieces of at most `_RESULTS` elements, or of one row."""
    step = max(1, _RESULTS // max(size, 1))
    return (slice(first, first + step) for first in range(0, count, step))


def _taps(problem: ConvProblem) -> Iterator[tuple[Place, Place]]:
    """Yield for each tap which positions of x and of y it connects."""
    for tap in itertools.product(*(range(size) for size in problem.filter)):
        pairs = [_connected(problem, axis, at) for axis, at in enumerate(tap)]
        yield (..., *(of_x for of_x, _ in pairs)), (..., *(of_y for _, of_y in pairs))


def _connected(problem: ConvProblem, axis: int, at: int) -> tuple[slice, slice]:
    size, results = problem.x_shape[2 + axis], problem.y_shape[2 + axis]
    stride = problem.stride[axis]
    shift = at * problem.dilation[axis] - problem.padding[axis]
    first = max(0, -(shift // stride))
    last = min(results, (size - 1 - shift) // stride + 1)
    count = max(0, last - first)
    start = first * stride + shift
    if not count:
        return slice(0, 0), slice(0, 0)
    return slice(start, start + (count - 1) * stride + 1, stride), slice(first, first + count)
