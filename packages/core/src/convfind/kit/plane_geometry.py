"""`PlaneGeometry`: a convolution in two axes as kernels see it that move tiles over planes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from convfind.kit.sizes import Axes
from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory, ScalarArg, i32, i64
from convfind.types import Direction


@dataclass(frozen=True, slots=True)
class PlaneGeometry:
    """From ``source`` to ``result``; channels and filters are those of one group.

    A data gradient is a convolution of y with the window turned round, its channels and filters
    changed places. A weight gradient has x and y in these places, as forward does.

    Attributes:
        source: the operand that is read beside the weights, or x.
        result: the operand that is written, or y.
        images: the size of the batch.
        groups: the number of groups.
        channels: channels of the source in one group.
        filters: channels of the result in one group.
        size: rows and columns of the source.
        out: rows and columns of the result.
        window: rows and columns of a filter.
        dilation: places from one tap to the next.
        padding: places before the first element; negative where elements are left out. Solvers
            compute themselves what a stride makes of a data gradient's.
        weight_steps: elements from one group, filter, channel and tap to the next.
        flipped: whether the window is turned round.
    """

    source: str
    result: str
    images: int
    groups: int
    channels: int
    filters: int
    size: Axes
    out: Axes
    window: Axes
    dilation: Axes
    padding: Axes
    weight_steps: tuple[int, int, int, int]
    flipped: bool

    @property
    def weight_arguments(self) -> tuple[ScalarArg, ...]:
        """The steps of the weights, and whether the window is turned round, for a kernel."""
        return (*map(i64, self.weight_steps), i32(int(self.flipped)))


@lru_cache(maxsize=64)
def plane_geometry(problem: ConvProblem) -> PlaneGeometry:
    """Return the convolution that computes a plain problem of two axes, or has its weights.

    Of three axes it is that of the last two, for one plane of an image and one of a filter.
    """
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    w_k, w_c, *_, w_tap = problem.strides("w")
    x_rows, x_columns = problem.x_shape[-2:]
    y_rows, y_columns = problem.y_shape[-2:]
    rows, columns = problem.filter[-2:]
    down, right = problem.dilation[-2:]
    above, left = problem.padding[-2:]
    outer = (problem.x_shape[0], problem.groups)
    window = ((rows, columns), (down, right))
    if problem.direction is Direction.BACKWARD_DATA:
        return PlaneGeometry(
            *(Memory.Y, Memory.X, *outer, k, c),
            *((y_rows, y_columns), (x_rows, x_columns), *window),
            ((rows - 1) * down - above, (columns - 1) * right - left),
            *((k * w_k, w_c, w_k, w_tap), True),
        )
    return PlaneGeometry(
        *(Memory.X, Memory.Y, *outer, c, k),
        *((x_rows, x_columns), (y_rows, y_columns), *window, (above, left)),
        *((k * w_k, w_k, w_c, w_tap), False),
    )
