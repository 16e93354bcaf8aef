"""`Geometry`: a convolution as the CPU kernels see it, in three spatial axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from convfind.kit.sizes import in_3d
from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory, ScalarArg, i32
from convfind.types import Direction

#: A step beyond this is never taken twice inside a tensor that the kernels take.
_FARTHEST = 2**30
Axes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """From ``source`` to ``result``; channels and filters are those of one group.

    A data gradient is stated as it is: stride, dilation and padding are the convolution's, and the
    kernel takes it apart into phases.
    """

    is_gradient: bool
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

    @property
    def source(self) -> str:
        """The tensor that is gathered."""
        return Memory.Y if self.is_gradient else Memory.X

    @property
    def result(self) -> str:
        """The tensor of the places that are computed."""
        return Memory.X if self.is_gradient else Memory.Y

    @property
    def taps(self) -> int:
        """Places of the window."""
        return math.prod(self.window)

    @property
    def reduction(self) -> int:
        """Products behind one result, over all phases."""
        return self.taps * self.channels

    @property
    def phases(self) -> int:
        """Parts of a data gradient that have taps of their own."""
        if not self.is_gradient:
            return 1
        return math.prod(map(min, self.stride, self.out))

    @property
    def reached_phases(self) -> int:
        """Phases that have taps, at most: the others cost nearly nothing."""
        if not self.is_gradient:
            return 1
        axes = zip(self.stride, self.out, self.window, strict=True)
        return math.prod(min(axis) for axis in axes)

    @property
    def positions(self) -> int:
        """Places of the result in the largest phase, over all images."""
        if not self.is_gradient:
            return self.images * math.prod(self.out)
        steps = zip(self.out, self.stride, strict=True)
        return self.images * math.prod(-(-size // step) for size, step in steps)

    @property
    def arguments(self) -> tuple[ScalarArg, ...]:
        """The kernels' GEOMETRY."""
        sizes = (self.images, self.groups, self.channels, self.filters)
        axes = (self.size, self.window, self.out, self.stride, self.dilation, self.padding)
        return tuple(map(i32, (*sizes, *(number for axis in axes for number in axis))))

    @property
    def largest(self) -> int:
        """The largest number that a kernel holds in an int."""
        reach = max(
            max(size, out) + 2 * abs(pad) + step * taps
            for size, out, pad, step, taps in zip(
                self.size, self.out, self.padding, self.dilation, self.window, strict=True
            )
        )
        line = self.window[2] * self.groups * self.channels
        furthest = max((out - 1) * step for out, step in zip(self.out, self.stride, strict=True))
        across = max(abs(pad) for pad in self.padding) * self.channels
        positions = self.images * math.prod(self.out)
        return max(
            reach + (0 if self.is_gradient else furthest),
            *(line, across, positions, self.reduction, self.filters, self.groups * self.phases),
        )


@lru_cache(maxsize=64)
def geometry(problem: ConvProblem) -> Geometry:
    """Return the geometry of a problem; that of backward-weights is the forward problem's."""
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    is_gradient = problem.direction is Direction.BACKWARD_DATA
    axes = zip(problem.stride, problem.y_shape[2:], strict=True)
    stride = tuple(min(step, _FARTHEST) if size > 1 else 1 for step, size in axes)
    axes = zip(problem.dilation, problem.filter, strict=True)
    dilation = tuple(min(step, _FARTHEST) if taps > 1 else 1 for step, taps in axes)
    x, y = in_3d(problem.x_shape[2:], 1), in_3d(problem.y_shape[2:], 1)
    found = Geometry(
        is_gradient,
        problem.x_shape[0],
        problem.groups,
        *((k, c) if is_gradient else (c, k)),
        y if is_gradient else x,
        in_3d(problem.filter, 1),
        x if is_gradient else y,
        in_3d(stride, 1),
        in_3d(dilation, 1),
        in_3d(problem.padding, 0),
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
        found.is_gradient,
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
    )
