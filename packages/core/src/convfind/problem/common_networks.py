"""The convolutions of common networks, whose kernels are compiled when a program is installed.

Their layers are of nearly every kind that networks for images have. Other networks share most
kernels with them, which depend on windows, strides and tiles more than on sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from convfind.errors import ProblemError
from convfind.problem import Activation, ConvProblem
from convfind.types import Direction

Network = tuple[ConvProblem, ...]
#: Makes another convolution of the same sizes from a plain forward one.
Form = Callable[[ConvProblem], ConvProblem]


class Use(NamedTuple):
    """A way in which networks are run: each layer in so many forms, at these batch sizes."""

    forms: Sequence[Form]
    batches: Sequence[int]


_INFERENCE, _TRAINING = (1, 16), (4, 64)  # batch sizes

# Rows of expansion, filters, blocks, stride and window, for each stage of inverted bottlenecks.
_MOBILENET_V2 = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3)),
    *((6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
)
_EFFICIENTNET_B0 = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
    *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
)


def usual_uses() -> tuple[Use, ...]:
    """Return how networks are usually run: layer by layer, in training, and fused."""
    directions = tuple(partial(ConvProblem.with_direction, direction=one) for one in Direction)
    relu = partial(ConvProblem.with_epilogue, bias=True, activation=Activation("relu"))
    return (
        Use(directions[:1], _INFERENCE),
        Use(directions, _TRAINING),
        Use((relu, partial(relu, add=True)), _INFERENCE),
    )


def common_networks(uses: Iterable[Use], **options: Any) -> Iterator[Network]:
    """Yield each network in each use and at each batch size of it.

    ``options`` are those of `ConvProblem.forward` that say nothing about sizes. Forms that are not
    possible with them, such as gradients of int8, are left out.
    """
    for forms, batches in uses:
        for layers in _LAYERS:
            for batch in batches:
                plain = [layer.at(batch, options) for layer in layers]
                yield tuple(form for layer in plain for form in _possible(layer, forms))


def _possible(layer: ConvProblem, forms: Iterable[Form]) -> Iterator[ConvProblem]:
    for form in forms:
        with suppress(ProblemError):
            yield form(layer)


class _Layer(NamedTuple):
    """A layer of a network, whose padding keeps the size of images as far as strides do."""

    size: int
    channels: int
    filters: int
    window: int = 1
    stride: int = 1
    groups: int = 1

    def at(self, batch: int, options: Mapping[str, Any]) -> ConvProblem:
        """Return the convolution at a batch size."""
        return ConvProblem.forward(
            **options,
            x=(batch, self.channels, self.size, self.size),
            w=(self.filters, self.channels // self.groups, self.window, self.window),
            padding=self.window // 2,
            stride=self.stride,
            groups=self.groups,
        )


def _resnet_50() -> Iterator[_Layer]:
    yield _Layer(224, 3, 64, 7, 2)
    size, channels = 56, 64
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        yield _Layer(size, channels, 4 * width, stride=first_stride)  # the shortcut
        for block in range(blocks):
            stride = 1 if block else first_stride
            yield _Layer(size, channels, width)
            yield _Layer(size, width, width, 3, stride)
            size, channels = size // stride, 4 * width
            yield _Layer(size, width, channels)


def _vgg_16() -> Iterator[_Layer]:
    stages = ((3, 64, 64), (64, 128, 128), (128, 256, 256, 256), (256, 512, 512, 512), (512,) * 4)
    for stage, channels in enumerate(stages):
        for before, filters in pairwise(channels):
            yield _Layer(224 >> stage, before, filters, 3)


def _inverted(rows: Iterable[tuple[int, int, int, int, int]]) -> Iterator[_Layer]:
    size, channels = 112, 32
    yield _Layer(224, 3, channels, 3, 2)
    for expansion, filters, blocks, first_stride, window in rows:
        for block in range(blocks):
            stride, wide = 1 if block else first_stride, expansion * channels
            if expansion > 1:
                yield _Layer(size, channels, wide)
            yield _Layer(size, wide, wide, window, stride, wide)
            size, channels = size // stride, filters
            yield _Layer(size, wide, channels)
    yield _Layer(size, channels, 1280)


_LAYERS = tuple(
    tuple(layers)
    for layers in (_resnet_50(), _vgg_16(), _inverted(_MOBILENET_V2), _inverted(_EFFICIENTNET_B0))
)
