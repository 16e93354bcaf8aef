"""`Geometry`: a convolution as the CPU kernels see it, in three spatial axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convfind.problem import ConvProblem
from convfind.solution import Memory, ScalarArg, i32, i64
from convfind.types import Direction

#: A step beyond this is never taken twice inside a tensor that the kernels take.
_FARTHEST = 2**30
Axes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution from ``source`` to ``result``; channels and filters are those of one group."""

    source: Memory
    result: Memory
    images: int
    groups: int
    channels: int
    filters: int
    size: Axes
    window: Axes
    out: Axes
    stride: Axes
    dilation: Axes
    padding: Axes
    weight_steps: tuple[int, int, int, int]  # group, filter, channel, tap
    flipped: bool

    @property
    def taps(self) -> int:
        """Places of the window."""
        return math.prod(self.window)

    @property
    def reduction(self) -> int:
        """Products behind one result."""
        return self.taps * self.channels

    @property
    def positions(self) -> int:
        """Places of the result, over all images."""
        return self.images * math.prod(self.out)

    @property
    def arguments(self) -> tuple[ScalarArg, ...]:
        """The kernels' GEOMETRY."""
        sizes = (self.images, self.groups, self.channels, self.filters)
        axes = (self.size, self.window, self.out, self.stride, self.dilation, self.padding)
        return tuple(map(i32, (*sizes, *(number for axis in axes for number in axis))))

    @property
    def weight_arguments(self) -> tuple[ScalarArg, ...]:
        """The last arguments of igemm_cpu_pack."""
        return (*map(i64, self.weight_steps), i32(int(self.flipped)))

    @property
    def largest(self) -> int:
        """The largest number that a kernel holds in an int."""
        reach = max(
            size + 2 * abs(pad) + step * taps
            for size, pad, step, taps in zip(
                self.size, self.padding, self.dilation, self.window, strict=True
            )
        )
        line = self.window[2] * self.groups * self.channels
        furthest = max((out - 1) * step for out, step in zip(self.out, self.stride, strict=True))
        across = max(abs(pad) for pad in self.padding) * self.channels
        return max(reach + furthest, line, across, self.positions, self.reduction, self.filters)


def geometry(problem: ConvProblem) -> Geometry:
    """Return the convolution that computes a forward problem, or a data gradient of stride 1."""
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    w_k, w_c, *w_window = problem.strides("w")
    # Packed weights: taps are evenly spaced, the last axis of the window the step.
    w_tap = w_window[-1]
    dilation = tuple(
        min(step, _FARTHEST) if taps > 1 else 1
        for step, taps in zip(problem.dilation, problem.filter, strict=True)
    )
    outer = (problem.x_shape[0], problem.groups)
    if problem.direction is Direction.FORWARD:
        stride = tuple(
            min(step, _FARTHEST) if size > 1 else 1
            for step, size in zip(problem.stride, problem.y_shape[2:], strict=True)
        )
        found = Geometry(
            Memory.X,
            Memory.Y,
            *outer,
            c,
            k,
            _in_3d(problem.x_shape[2:], 1),
            _in_3d(problem.filter, 1),
            _in_3d(problem.y_shape[2:], 1),
            _in_3d(stride, 1),
            _in_3d(dilation, 1),
            _in_3d(problem.padding, 0),
            (k * w_k, w_k, w_c, w_tap),
            flipped=False,
        )
    else:
        padding = tuple(
            step * (taps - 1) - pad
            for step, taps, pad in zip(dilation, problem.filter, problem.padding, strict=True)
        )
        found = Geometry(
            Memory.Y,
            Memory.X,
            *outer,
            k,
            c,
            _in_3d(problem.y_shape[2:], 1),
            _in_3d(problem.filter, 1),
            _in_3d(problem.x_shape[2:], 1),
            (1, 1, 1),
            _in_3d(dilation, 1),
            _in_3d(padding, 0),
            (k * w_k, w_c, w_k, w_tap),
            flipped=math.prod(problem.filter) > 1,
        )
    return _collapsed(found, channels_last=problem.x_layout.channels_last)


def _collapsed(found: Geometry, *, channels_last: bool) -> Geometry:
    """Turn a 1x1 convolution of stride 1 into one long row: no indices to compute."""
    if found.taps > 1 or found.size != found.out or any(found.padding) or max(found.stride) > 1:
        return found
    images, row = found.images, math.prod(found.out)
    if channels_last:
        images, row = 1, images * row
    return Geometry(
        found.source,
        found.result,
        images,
        found.groups,
        found.channels,
        found.filters,
        (1, 1, row),
        (1, 1, 1),
        (1, 1, row),
        (1, 1, 1),
        (1, 1, 1),
        (0, 0, 0),
        found.weight_steps,
        flipped=False,
    )


def _in_3d(values: tuple[int, ...], missing: int) -> Axes:
    """Fill in the spatial axes that a 1-D or 2-D problem lacks."""
    depth, height, width = (missing,) * (3 - len(values)) + values
    return depth, height, width
