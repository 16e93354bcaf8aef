"""`CpuGeometry`: a convolution as the CPU kernels see it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from convfind.problem import ConvProblem
from convfind.solver.recipe import ScalarArg, i32
from convfind_solvers_igemm.geometry import SolidGeometry


@dataclass(frozen=True, slots=True)
class CpuGeometry(SolidGeometry):
    """With the numbers that CPU kernels and their cuts take."""

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
def geometry(problem: ConvProblem) -> CpuGeometry:
    """Return the geometry of a problem; that of backward-weights is the forward problem's.

    A 1x1 convolution of stride 1 is one long row: no indices to compute.
    """
    found = CpuGeometry.of(problem)
    if not found.is_pointwise:
        return found
    images, row = found.images, math.prod(found.out)
    if problem.x_layout.channels_last:
        images, row = 1, images * row
    return replace(found, images=images, size=(1, 1, row), out=(1, 1, row))
