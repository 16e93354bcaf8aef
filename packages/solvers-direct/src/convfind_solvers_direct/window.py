"""`Window`: a convolution with few channels a group as the kernels see it, in two spatial axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory
from convfind.types import Direction

Axes = tuple[int, int]

#: With more channels a group an implicit GEMM is faster.
MOST_CHANNELS = 8
#: Kernels count elements of an image, and places with their padding, in 32 bits.
LARGEST = 2**28
#: Loops over these are unrolled.
_MOST_TAPS = 64
LARGEST_STRIDE = 8
_WIDEST = 128


@dataclass(frozen=True, slots=True)
class Window:
    """From ``source`` to ``result``; channels and filters are those of one group in the two.

    For backward-weights, this describes the forward problem. A 1-D problem is one of height 1.
    """

    is_gradient: bool
    images: int
    groups: int
    channels: int
    filters: int
    size: Axes
    out: Axes
    taps: Axes
    stride: Axes
    dilation: Axes
    padding: Axes

    @property
    def source(self) -> str:
        """The tensor that is read beside the weights."""
        return Memory.Y if self.is_gradient else Memory.X

    @property
    def result(self) -> str:
        """The tensor that is written."""
        return Memory.X if self.is_gradient else Memory.Y

    @property
    def shift(self) -> Axes:
        """Places before the first result with which a multiple of the stride begins."""
        if not self.is_gradient:
            return 0, 0
        height, width = (pad % step for pad, step in zip(self.padding, self.stride, strict=True))
        return height, width

    def span(self, results: int, axis: int) -> int:
        """Source places that neighbouring results take along an axis."""
        taps, step, dilation = self.taps[axis], self.stride[axis], self.dilation[axis]
        if self.is_gradient:
            return (taps - 1) * dilation // step + (results - 1) // step + 1
        return (results - 1) * step + (taps - 1) * dilation + 1

    @property
    def macros(self) -> dict[str, int]:
        """The sizes that are compiled in."""
        axes = {"FILTER": self.taps, "STRIDE": self.stride, "DILATION": self.dilation}
        return {
            "GRADIENT": int(self.is_gradient),
            "CHANNELS": self.channels,
            "FILTERS": self.filters,
            **{
                f"{name}_{axis}": size[i]
                for name, size in axes.items()
                for i, axis in enumerate("HW")
            },
        }


@lru_cache(maxsize=64)
def window(problem: ConvProblem) -> Window:
    """Return what the kernels compute for a plain, packed problem of one layout."""
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    is_gradient = problem.direction is Direction.BACKWARD_DATA
    x, y = _in_2d(problem.x_shape[2:], 1), _in_2d(problem.y_shape[2:], 1)
    taps = _in_2d(problem.filter, 1)
    # The step between taps that do not exist does not matter.
    dilation = _in_2d(problem.dilation, 1)
    steps = zip(dilation, taps, strict=True)
    height, width = (step if count > 1 else 1 for step, count in steps)
    return Window(
        is_gradient,
        problem.x_shape[0],
        problem.groups,
        *((k, c) if is_gradient else (c, k)),
        y if is_gradient else x,
        x if is_gradient else y,
        taps,
        _in_2d(problem.stride, 1),
        (height, width),
        _in_2d(problem.padding, 0),
    )


def judge(problem: ConvProblem) -> Applicability:
    """Judge what all solvers for few channels a group have in common."""
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    if max(k, c) > MOST_CHANNELS:
        return Rejected(Reason.CHANNELS, f"at most {MOST_CHANNELS} a group, not {c} and {k}")
    if problem.groups == 1 and max(k, c) > 1:
        return Rejected(Reason.GROUPS, "channels must be in groups")
    if max(problem.filter) > _MOST_TAPS:
        return Rejected(Reason.FILTER_SIZE, f"at most {_MOST_TAPS} taps along an axis")
    if max(problem.stride) > LARGEST_STRIDE:
        return Rejected(Reason.STRIDE, f"at most {LARGEST_STRIDE}")
    steps = zip(problem.dilation, problem.filter, strict=True)
    if max((taps - 1) * step for step, taps in steps) > _WIDEST:
        return Rejected(Reason.DILATION, f"taps further apart than {_WIDEST}")
    return judge_image(problem)


def judge_image(problem: ConvProblem) -> Applicability:
    """Judge whether kernels can count the elements of an image."""
    image = max(math.prod(problem.x_shape[1:]), math.prod(problem.y_shape[1:]))
    if max(image, *problem.padding) > LARGEST:
        return Rejected(Reason.SIZE_LIMIT, f"an image of {image} elements, or its padding")
    return APPLICABLE


def _in_2d(values: tuple[int, ...], missing: int) -> Axes:
    height, width = (missing,) * (2 - len(values)) + values
    return height, width
