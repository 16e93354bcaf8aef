"""`Window`: a convolution with few channels a group as the kernels see it, in two spatial axes."""

from __future__ import annotations

import math
from functools import lru_cache

from convfind.kit.blocks import Axes, Geometry, per_axis
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected

#: With more channels a group an implicit GEMM is faster.
MOST_CHANNELS = 8
#: Kernels count elements of an image, and places with their padding, in 32 bits.
LARGEST = 2**28
#: Loops over these are unrolled.
_MOST_TAPS = 64
LARGEST_STRIDE = 8
_WIDEST = 128


class Window(Geometry):
    """A convolution in two axes; a 1-D problem is one of height 1."""

    __slots__ = ()

    @property
    def shift(self) -> Axes:
        """Places before the first result with which a multiple of the stride begins."""
        if not self.is_gradient:
            return 0, 0
        return tuple(pad % step for pad, step in zip(self.padding, self.stride, strict=True))

    @property
    def zeros_before(self) -> Axes:
        """Zeros before the source that the first result takes, where strides are 1."""
        if not self.is_gradient:
            return self.padding
        return tuple(size - 1 - pad for size, pad in zip(self.window, self.padding, strict=True))

    def span(self, results: int, axis: int) -> int:
        """Source places that neighbouring results take along an axis."""
        taps, step, dilation = self.window[axis], self.stride[axis], self.dilation[axis]
        if self.is_gradient:
            return (taps - 1) * dilation // step + (results - 1) // step + 1
        return (results - 1) * step + (taps - 1) * dilation + 1

    @property
    def macros(self) -> dict[str, int]:
        """The sizes that are compiled in."""
        return {
            "GRADIENT": int(self.is_gradient),
            "CHANNELS": self.channels,
            "FILTERS": self.filters,
            **per_axis(FILTER=self.window, STRIDE=self.stride, DILATION=self.dilation),
        }


@lru_cache(maxsize=64)
def window(problem: ConvProblem) -> Window:
    """Return what the kernels compute for a plain, packed problem of one layout."""
    return Window.of(problem, 2)


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
