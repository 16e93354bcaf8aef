"""`convolve`: the sums of a plain convolution in NumPy, in float64, in every direction.

The three directions share one view of the work: for each tap of the filter, the part of the padded
data that it meets is a strided view with as many positions as y. A block of taps gathered into one
matrix turns into one matrix product for each group, so that BLAS does the arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import numpy as np

from convfind.checking.pieces import in_parts
from convfind.checking.products import product
from convfind.problem import ConvProblem
from convfind.types import Direction

Array = np.ndarray[Any, Any]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Tap = tuple[slice | EllipsisType, ...]

#: Elements of the largest gathered matrix: 128 MiB.
BLOCK_ELEMENTS = 2**24


def doubles(array: Array) -> Doubles:
    """Return an array in float64, itself where it is."""
    return np.asarray(array).astype(np.float64, copy=False)


def convolve(problem: ConvProblem, tensors: dict[str, Array]) -> Doubles:
    """Compute a plain problem without its epilogue, all tensors in N, C, spatial order.

    Operands of any type become float64 block by block, in memory that each block uses again:
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
        block = filters[..., taps].reshape(problem.groups, part.shape[1], -1)
        in_parts(_add, part, product(block, _gather(data, views)).reshape(part.shape))
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
            rows = product(block.reshape(*block.shape[:2], -1).swapaxes(1, 2), columns)
            each = rows.reshape(*block.shape[0:1], block.shape[2], len(views), *gradient.shape[2:])
            for index, view in enumerate(views):
                in_parts(_add, padded[view], each[:, :, index])
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
        part += product(columns, _gather(data, views).swapaxes(1, 2)).reshape(part.shape)
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
    columns = np.empty(data.shape)
    in_parts(np.copyto, columns, data)
    return columns.reshape(*data.shape[:2], -1)


def _gather(data: Array, views: list[Tap]) -> Doubles:
    """Return the matrix (groups, channels * taps, images * positions)."""
    if len(views) == 1:
        return _columns(data[views[0]])
    shape = data[views[0]].shape
    gathered = np.empty((*shape[:2], len(views), *shape[2:]))
    for index, view in enumerate(views):
        in_parts(np.copyto, gathered[:, :, index], data[view])
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
    return doubles(w).reshape(problem.groups, out // problem.groups, channels, -1)


def _pad(problem: ConvProblem, data: Array) -> Array:
    if not any(problem.padding) and not any(problem.padding_end):
        return data
    sides = zip(data.shape[3:], problem.padding, problem.padding_end, strict=True)
    padded = np.zeros((*data.shape[:3], *(sum(side) for side in sides)), data.dtype)
    in_parts(np.copyto, padded[_interior(problem)], data)
    return padded


def _add(sums: Array, more: Array) -> None:
    sums += more


def _interior(problem: ConvProblem) -> Tap:
    inside = (
        slice(begin, begin + size)
        for begin, size in zip(problem.padding, problem.x_shape[2:], strict=True)
    )
    return (..., *inside)
