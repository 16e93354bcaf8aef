"""Geometry of a convolution: shapes, sums, idle taps, the plain form of a transposed one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from convfind.types import ConvMode, Direction

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem


def result_shape(problem: ConvProblem) -> tuple[int, ...]:
    """Return the shape of y: N, K and as many spatial sizes as x has."""
    spatial = []
    for axis, size in enumerate(problem.x_shape[2:]):
        reach = problem.dilation[axis] * (problem.w_shape[2 + axis] - 1) + 1
        pads = problem.padding[axis] + problem.padding_end[axis]
        if problem.mode is ConvMode.TRANSPOSE:
            spatial.append(
                (size - 1) * problem.stride[axis] - pads + reach + problem.output_padding[axis]
            )
        else:
            spatial.append((size + pads - reach) // problem.stride[axis] + 1)
    is_transposed = problem.mode is ConvMode.TRANSPOSE
    channels = problem.w_shape[1] * problem.groups if is_transposed else problem.w_shape[0]
    return (problem.x_shape[0], channels, *spatial)


def is_pointwise(problem: ConvProblem) -> bool:
    """Return whether the filter is 1x1, the stride 1, and there is no padding."""
    return (
        all(size == 1 for size in problem.filter)
        and all(step == 1 for step in problem.stride)
        and not any(problem.padding)
        and not any(problem.padding_end)
    )


def length_of_sums(plain: ConvProblem) -> int:
    """Return how many products are summed for one element of an ordinary convolution's result."""
    if plain.direction is Direction.FORWARD:
        return math.prod(plain.w_shape[1:])
    if plain.direction is Direction.BACKWARD_DATA:
        return plain.w_shape[0] // plain.groups * math.prod(plain.filter)
    return plain.x_shape[0] * math.prod(plain.y_shape[2:])


def has_idle_taps(plain: ConvProblem) -> bool:
    """Return whether a tap of the filter is multiplied only by padding; every tap is checked."""
    return any(
        len(used) < taps for used, taps in zip(taps_in_use(plain), plain.filter, strict=True)
    )


def taps_in_use(plain: ConvProblem) -> list[list[int]]:
    """Return, for each spatial axis, the taps of the filter that meet an element of x somewhere."""
    axes = zip(
        *(plain.filter, plain.stride, plain.dilation, plain.padding),
        *(plain.x_shape[2:], plain.y_shape[2:]),
        strict=True,
    )
    found: list[list[int]] = []
    for taps, step, apart, pad, size, count in axes:
        used = []
        for tap in range(taps):
            begin = tap * apart - pad
            position = max(0, -(begin // step))  # the first in which it is not before x
            if position < count and begin + position * step < size:
                used.append(tap)
        found.append(used)
    return found


def plain_fields(transposed: ConvProblem) -> dict[str, Any]:
    """Return what differs in the ordinary convolution that computes the same numbers."""
    # Output padding of a stride or more would be another position: less padding ends before it.
    cut = (
        max(0, more - step + 1)
        for more, step in zip(transposed.output_padding, transposed.stride, strict=True)
    )
    return {
        "mode": ConvMode.CONVOLUTION,
        "direction": transposed.plain_direction,
        "x_shape": transposed.y_shape,
        "padding_end": tuple(p - c for p, c in zip(transposed.padding_end, cut, strict=True)),
        "output_padding": (0,) * transposed.spatial_rank,
        "x_layout": transposed.y_layout,
        "y_layout": transposed.x_layout,
        "x_strides": transposed.y_strides,
        "y_strides": transposed.x_strides,
    }
