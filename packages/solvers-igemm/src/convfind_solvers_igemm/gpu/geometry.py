"""`GpuGeometry`: a convolution as gpu_geometry.h sees it, in three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from convfind.kit.sizes import in_3d
from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory, ScalarArg, i32
from convfind.types import Direction

#: Sizes along an axis, windows included, stay below this, so that sums of two of them fit 32 bits.
_FARTHEST = 2**28
#: Products of two phases fit 32 bits.
_WIDEST = 2**16
#: Elements of an image and of the weights, and positions of all images, are counted in 32 bits.
_LARGEST = 2**31 - 2**16
#: Phases are told apart by bytes.
_MOST_FUSED = 255
_AXES = "DHW"
Axes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GpuGeometry:
    """A convolution from ``source`` to ``result``; channels are those of one group.

    The weight gradient has x and y in these places, as forward does.
    """

    source: str
    result: str
    images: int
    groups: int
    source_channels: int
    result_channels: int
    source_size: Axes
    result_size: Axes
    window: Axes
    stride: Axes
    dilation: Axes
    padding: Axes
    channels_last: bool
    by_phases: bool  # the data gradient: see gpu_geometry.h
    has_bias: bool

    @property
    def taps(self) -> int:
        """Places of the window."""
        return math.prod(self.window)

    @property
    def phases(self) -> int:
        """Convolutions of stride 1 that the data gradient falls into; 1 for the others."""
        return math.prod(self.stride) if self.by_phases else 1

    @property
    def phase_taps(self) -> int:
        """Taps of the phase that has the most; of the window where there are no phases."""
        if not self.by_phases:
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
        return _axes(
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
        return _axes(
            pad % stride if (window - 1) // stride < (window - 1 + -pad % stride) // stride else 0
            for window, stride, pad in axes
        )

    @property
    def fused_counts(self) -> Axes:
        """Positions of an image along each axis, where all phases are computed together."""
        axes = zip(self.result_size, self.fused_leads, self.stride, strict=True)
        return _axes(-(-(size + lead) // stride) for size, lead, stride in axes)

    @property
    def positions(self) -> int:
        """Results of a channel, over all images."""
        return self.images * math.prod(self.result_size)

    @property
    def phase_counts(self) -> Axes:
        """Results of an image along each axis, in the largest phase."""
        steps = self.stride if self.by_phases else (1, 1, 1)
        return _axes(-(-size // step) for size, step in zip(self.result_size, steps, strict=True))

    @property
    def is_pointwise(self) -> bool:
        """True where each result depends on the source at its own place only."""
        return (
            self.taps == 1
            and self.source_size == self.result_size
            and not any(self.padding)
            and max(self.stride) == 1
        )

    @property
    def arguments(self) -> tuple[ScalarArg, ...]:
        """The kernels' GEOMETRY."""
        return tuple(map(i32, self.sizes.values()))

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of GEOMETRY by their names, in their order."""
        repeats = tuple(map(_repeat, self.stride, self.dilation))
        inverses = tuple(map(_inverse, self.stride, self.dilation))
        named = {
            "IMAGES": self.images,
            "GROUPS": self.groups,
            "SOURCE_CHANNELS": self.source_channels,
            "RESULT_CHANNELS": self.result_channels,
        }
        per_axis = {
            "SOURCE": self.source_size,
            "RESULT": self.result_size,
            "WINDOW": self.window,
            "STRIDE": self.stride,
            "DILATION": self.dilation,
            "PAD": self.padding,
            "REPEAT": repeats,
            "INVERSE": inverses,
        }
        for name, values in per_axis.items():
            named |= {f"{name}_{axis}": value for axis, value in zip(_AXES, values, strict=True)}
        return named

    @property
    def too_large(self) -> int | None:
        """A size that the kernels cannot count; None where they can count all."""
        axes = zip(
            self.source_size,
            self.result_size,
            self.window,
            self.stride,
            self.dilation,
            self.padding,
            strict=True,
        )
        for source, result, window, stride, dilation, padding in axes:
            reach: int = max(source, window * dilation) + padding + max(stride, result * stride)
            if reach >= _FARTHEST:
                return reach
        if self.by_phases and max(self.stride) >= _WIDEST:
            return max(self.stride)
        channels = self.groups * max(self.source_channels, self.result_channels)
        spaces = max(math.prod(self.source_size), math.prod(self.result_size))
        counts = (
            channels * max(spaces, 9),  # four positions may lie in four images of up to three each
            self.positions * max(self.phases, 1),
            self.groups * self.source_channels * self.result_channels * self.taps,
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
    k, c = problem.w_shape[0] // problem.groups, problem.w_shape[1]
    by_phases = problem.direction is Direction.BACKWARD_DATA
    x, y = in_3d(problem.x_shape[2:], 1), in_3d(problem.y_shape[2:], 1)
    window = in_3d(problem.filter, 1)
    # Steps that are never taken are 1: no phases of nothing, no numbers that do not fit.
    steps = zip(in_3d(problem.stride, 1), y, strict=True)
    stride = tuple(step if size > 1 else 1 for step, size in steps)
    steps = zip(in_3d(problem.dilation, 1), window, strict=True)
    dilation = tuple(step if size > 1 else 1 for step, size in steps)
    found = GpuGeometry(
        source=Memory.Y if by_phases else Memory.X,
        result=Memory.X if by_phases else Memory.Y,
        images=problem.x_shape[0],
        groups=problem.groups,
        source_channels=k if by_phases else c,
        result_channels=c if by_phases else k,
        source_size=y if by_phases else x,
        result_size=x if by_phases else y,
        window=window,
        stride=_axes(stride),
        dilation=_axes(dilation),
        padding=in_3d(problem.padding, 0),
        channels_last=problem.x_layout.channels_last,
        by_phases=by_phases,
        has_bias=problem.bias,
    )
    if not found.is_pointwise:
        return found
    row = (1, 1, math.prod(found.source_size))
    return replace(found, source_size=row, result_size=row)


def _axes(values: Iterable[int]) -> Axes:
    depth, height, width = values
    return depth, height, width


def _repeat(stride: int, dilation: int) -> int:
    """Taps from one that meets a phase to the next."""
    return stride // math.gcd(stride, dilation)


def _inverse(stride: int, dilation: int) -> int:
    """Solve inverse * dilation / gcd = 1 modulo stride / gcd."""
    gcd = math.gcd(stride, dilation)
    return pow(dilation // gcd, -1, stride // gcd)
