"""`GpuGeometry`: a convolution as gpu_geometry.h sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from convfind.kit.blocks import Axes, per_axis
from convfind.problem import ConvProblem
from convfind.solver.recipe import ScalarArg, i32
from convfind.types import Direction
from convfind_solvers_igemm.geometry import SolidGeometry

#: Sizes along an axis, windows included, stay below this, so that sums of two of them fit 32 bits.
_FARTHEST = 2**28
#: Products of two phases fit 32 bits.
_WIDEST = 2**16
#: Elements of an image and of the weights, and positions of all images, are counted in 32 bits.
_LARGEST = 2**31 - 2**16
#: Phases are told apart by bytes.
_MOST_FUSED = 255


@dataclass(frozen=True, slots=True)
class GpuGeometry(SolidGeometry):
    """With the numbers that gpu_geometry.h has of it.

    Attributes:
        channels_last: whether channels come last.
        has_bias: whether a number for each channel of the result is added.
    """

    channels_last: bool
    has_bias: bool

    @property
    def phases(self) -> int:
        """Convolutions of stride 1 that the data gradient falls into; 1 for the others."""
        return math.prod(self.stride) if self.is_gradient else 1

    @property
    def phase_taps(self) -> int:
        """Taps of the phase that has the most; of the window where there are no phases."""
        if not self.is_gradient:
            return self.taps
        repeats = map(_repeat, self.stride, self.dilation)
        return math.prod(
            -(-size // repeat) for size, repeat in zip(self.window, repeats, strict=True)
        )

    @property
    def fused_taps(self) -> int | None:
        """Taps that any phase has, where all phases can be computed together; else None.

        Columns are those of all phases there, and a bias counts channels.
        """
        if self.has_bias or any(
            stride > 1 and (dilation > 1 or stride > _MOST_FUSED)
            for stride, dilation in zip(self.stride, self.dilation, strict=True)
        ):
            return None
        return math.prod(self.fused_windows)

    @property
    def fused_windows(self) -> Axes:
        """Taps along each axis that any phase has, where all phases are computed together."""
        pads = (pad - lead for pad, lead in zip(self.padding, self.fused_leads, strict=True))
        axes = zip(self.window, self.stride, pads, strict=True)
        return tuple(
            window if stride == 1 else (window - 1 + -pad % stride) // stride + 1
            for window, stride, pad in axes
        )

    @property
    def fused_leads(self) -> Axes:
        """How far before the first result the phases of the first position begin.

        The padding beyond whole strides, where any phase then has fewer taps: fused_axis()
        of gpu_geometry.h.
        """
        axes = zip(self.window, self.stride, self.padding, strict=True)
        return tuple(
            pad % stride if (window - 1) // stride < (window - 1 + -pad % stride) // stride else 0
            for window, stride, pad in axes
        )

    @property
    def fused_counts(self) -> Axes:
        """Positions of an image along each axis, where all phases are computed together."""
        axes = zip(self.out, self.fused_leads, self.stride, strict=True)
        return tuple(-(-(size + lead) // stride) for size, lead, stride in axes)

    @property
    def positions(self) -> int:
        """Results of a channel, over all images."""
        return self.images * math.prod(self.out)

    @property
    def phase_counts(self) -> Axes:
        """Results of an image along each axis, in the largest phase."""
        steps = self.stride if self.is_gradient else (1, 1, 1)
        return tuple(-(-size // step) for size, step in zip(self.out, steps, strict=True))

    @property
    def arguments(self) -> tuple[ScalarArg, ...]:
        """The kernels' GEOMETRY."""
        return tuple(map(i32, self.sizes.values()))

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of GEOMETRY by their names, in their order."""
        repeats = tuple(map(_repeat, self.stride, self.dilation))
        inverses = tuple(map(_inverse, self.stride, self.dilation))
        return {
            "IMAGES": self.images,
            "GROUPS": self.groups,
            "SOURCE_CHANNELS": self.channels,
            "RESULT_CHANNELS": self.filters,
            **per_axis(
                SOURCE=self.size,
                RESULT=self.out,
                WINDOW=self.window,
                STRIDE=self.stride,
                DILATION=self.dilation,
                PAD=self.padding,
                REPEAT=repeats,
                INVERSE=inverses,
            ),
        }

    @property
    def too_large(self) -> int | None:
        """A size that the kernels cannot count; None where they can count all."""
        sizes = (self.size, self.out, self.window, self.stride, self.dilation, self.padding)
        for source, result, window, stride, dilation, padding in zip(*sizes, strict=True):
            reach: int = max(source, window * dilation) + padding + max(stride, result * stride)
            if reach >= _FARTHEST:
                return reach
        if self.is_gradient and max(self.stride) >= _WIDEST:
            return max(self.stride)
        channels = self.groups * max(self.channels, self.filters)
        spaces = max(math.prod(self.size), math.prod(self.out))
        counts = (
            channels * max(spaces, 9),  # four positions may lie in four images of up to three each
            self.positions * max(self.phases, 1),
            self.groups * self.channels * self.filters * self.taps,
        )
        return max(counts) if max(counts) >= _LARGEST else None


def without_patches(problem: ConvProblem) -> ConvProblem:
    """Return the same over the same memory, windows that lie side by side along w as channels.

    Only what is channels last, and has no other windows, changes. Where windows are those of the
    result, a bias of a channel would be one of each of its places.
    """
    taps, channels = problem.w_shape[-1], problem.w_shape[1]
    fits = (
        problem.x_layout.channels_last
        and problem.layouts_agree
        and problem.is_packed
        and problem.groups == 1
        and taps > 1
        and problem.stride[-1] == taps
        and problem.dilation[-1] == 1
        and problem.padding[-1] == 0
        and problem.y_shape[-1] * taps == problem.x_shape[-1]
        and not (problem.bias and problem.direction is Direction.BACKWARD_DATA)
    )
    if not fits:
        return problem
    x, w = problem.x_shape, problem.w_shape
    return replace(
        problem,
        x_shape=(x[0], taps * channels, *x[2:-1], x[-1] // taps),
        w_shape=(w[0], taps * channels, *w[2:-1], 1),
        stride=(*problem.stride[:-1], 1),
    )


@lru_cache(maxsize=64)
def gpu_geometry(problem: ConvProblem) -> GpuGeometry:
    """Return what the kernels compute for a plain, packed problem of one layout."""
    found = GpuGeometry.of(
        problem, channels_last=problem.x_layout.channels_last, has_bias=problem.bias
    )
    if not found.is_pointwise:
        return found
    row = (1, 1, math.prod(found.size))
    return replace(found, size=row, out=row)


def _repeat(stride: int, dilation: int) -> int:
    """Taps from one that meets a phase to the next."""
    return stride // math.gcd(stride, dilation)


def _inverse(stride: int, dilation: int) -> int:
    """Solve inverse * dilation / gcd = 1 modulo stride / gcd."""
    gcd = math.gcd(stride, dilation)
    return pow(dilation // gcd, -1, stride // gcd)
