"""`Geometry`: a convolution as kernels see it, from one tensor to another, in so many axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from convfind.kit.sizes import Axes
from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory
from convfind.types import Direction


@dataclass(frozen=True, slots=True)
class Geometry:
    """From `source` to `result`; channels and filters are those of one group.

    A data gradient is stated as it is: stride, dilation and padding are the convolution's, and the
    kernel takes it apart into phases. The weight gradient has x and y in the places of source and
    result, as forward does. A family adds what its kernels count.

    Attributes:
        is_gradient: whether it is a data gradient.
        images: the size of the batch.
        groups: the number of groups.
        channels: channels of the source in one group.
        filters: channels of the result in one group.
        size: places of the source.
        out: places of the result.
        window: places of a filter.
        stride: places from one result of the convolution to the next.
        dilation: places from one tap to the next; 1 where there is one tap only.
        padding: places before the first element.
    """

    is_gradient: bool
    images: int
    groups: int
    channels: int
    filters: int
    size: Axes
    out: Axes
    window: Axes
    stride: Axes
    dilation: Axes
    padding: Axes

    @classmethod
    def of(cls, problem: ConvProblem, axes: int = 3, **more: Any) -> Self:
        """Return the geometry of a plain, packed problem of one layout.

        Args:
            problem: the problem; axes that it lacks are put in front of its own.
            axes: the number of axes.
            more: the fields of a subclass.
        """

        def filled(values: Axes, missing: int) -> Axes:
            return (missing,) * (axes - len(values)) + values

        k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
        is_gradient = problem.direction is Direction.BACKWARD_DATA
        x, y = filled(problem.x_shape[2:], 1), filled(problem.y_shape[2:], 1)
        window = filled(problem.filter, 1)
        steps = zip(filled(problem.dilation, 1), window, strict=True)
        return cls(
            is_gradient,
            *(problem.x_shape[0], problem.groups, *((k, c) if is_gradient else (c, k))),
            *((y, x) if is_gradient else (x, y)),
            *(window, filled(problem.stride, 1)),
            tuple(step if taps > 1 else 1 for step, taps in steps),
            filled(problem.padding, 0),
            **more,
        )

    @property
    def source(self) -> str:
        """The tensor that is read beside the weights, or x."""
        return Memory.Y if self.is_gradient else Memory.X

    @property
    def result(self) -> str:
        """The tensor of the places that are computed, or y."""
        return Memory.X if self.is_gradient else Memory.Y

    @property
    def taps(self) -> int:
        """Places of the window, along all axes."""
        return math.prod(self.window)


def per_axis(**sizes: Axes) -> dict[str, int]:
    """Return sizes by axis: ``STRIDE_H`` and ``STRIDE_W`` of a ``STRIDE`` in two axes."""
    return {
        f"{name}_{axis}": value
        for name, values in sizes.items()
        for axis, value in zip("DHW"[-len(values) :], values, strict=True)
    }
