"""`Geometry`: a convolution as the kernels of the family see it, in three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from convfind.kit.blocks import Axes, in_3d
from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory
from convfind.types import Direction


@dataclass(frozen=True, slots=True)
class Geometry:
    """From ``source`` to ``result``; channels and filters are those of one group.

    A data gradient is stated as it is: stride, dilation and padding are the convolution's, and the
    kernel takes it apart into phases. The weight gradient has x and y in the places of source and
    result, as forward does.
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
    def of(cls, problem: ConvProblem, **more: Any) -> Self:
        """Return the geometry of a plain, packed problem of one layout."""
        k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
        is_gradient = problem.direction is Direction.BACKWARD_DATA
        x, y = in_3d(problem.x_shape[2:], 1), in_3d(problem.y_shape[2:], 1)
        window = in_3d(problem.filter, 1)
        # Steps that are never taken are 1: no phases of nothing, no numbers that do not fit.
        steps = zip(in_3d(problem.stride, 1), y, strict=True)
        stride = axes_of(step if size > 1 else 1 for step, size in steps)
        steps = zip(in_3d(problem.dilation, 1), window, strict=True)
        dilation = axes_of(step if size > 1 else 1 for step, size in steps)
        return cls(
            is_gradient,
            *(problem.x_shape[0], problem.groups, *((k, c) if is_gradient else (c, k))),
            *((y, x) if is_gradient else (x, y)),
            *(window, stride, dilation, in_3d(problem.padding, 0)),
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
        """Places of the window."""
        return math.prod(self.window)

    @property
    def is_pointwise(self) -> bool:
        """True where each result depends on the source at its own place only."""
        return (
            self.taps == 1
            and self.size == self.out
            and not any(self.padding)
            and max(self.stride) == 1
        )


def axes_of(values: Iterable[int]) -> Axes:
    """Return three numbers as axes."""
    depth, height, width = values
    return depth, height, width
