"""Problems for training data, made of sizes that occur in networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import Direction

_SIZES = (7, 8, 10, 13, 14, 16, 17, 20, 27, 28, 32, 35, 40, 56, 64, 80, 112, 128, 224)
_CHANNELS = (
    *(8, 16, 16, 24, 24, 32, 32, 40, 48, 64, 64, 72, 80, 96, 96, 112, 120, 128, 128, 144, 160, 192),
    *(192, 224, 240, 256, 256, 288, 320, 384, 384, 480, 512, 512, 576, 672, 768, 960, 1024, 1152),
    *(1280, 1536, 2048),
)
_FILTERS = (1,) * 11 + (3,) * 7 + (5, 7)
_STRIDES = (1, 1, 1, 1, 2)
_DILATIONS = (2, 2, 3, 4, 6, 8, 12, 18)
_PATCHES = (2, 2, 2, 4, 4, 8, 14, 16, 16, 32)
_LENGTHS = (100, 128, 200, 400, 512, 800, 1000, 1600, 3200, 4000)
_DEPTHS = (4, 8, 8, 16)


def usual_problems(
    count: int, batches: Sequence[int], generator: np.random.Generator
) -> Iterator[ConvProblem]:
    """Problems of sizes that are usual in networks: one in ten a first layer."""
    for _ in range(count):
        size, channels, filters = generator.choice(_SIZES), *generator.choice(_CHANNELS, 2)
        window, stride = generator.choice(_FILTERS), generator.choice(_STRIDES)
        if generator.random() < 0.1:
            size, channels, filters = generator.choice(_SIZES[-2:]), 3, min(filters, 96)
            window, stride = generator.choice(_FILTERS[-5:]), generator.choice(_STRIDES[-2:])
        yield ConvProblem.create(
            list(Direction)[generator.integers(3)],
            (int(generator.choice(batches)), int(channels), int(size), int(size)),
            (int(filters), int(channels), int(window), int(window)),
            padding=int(window) // 2,
            stride=int(stride),
        )


def rare_problems(
    count: int, batches: Sequence[int], generator: np.random.Generator
) -> Iterator[ConvProblem]:
    """Problems unlike most of a network's layers, as many of each kind: filters of one row or
    column, large, dilated and even ones, patches, first layers, signals, volumes, odd sizes.
    """

    def some(*values: int) -> int:
        return int(generator.choice(values))

    while count > 0:
        channels, filters, size = some(*_CHANNELS), some(*_CHANNELS), some(*_SIZES)
        x: tuple[int, ...] = (size, size)
        window: tuple[int, ...] = (3, 3)
        stride, dilation = 1, 1
        padding: int | tuple[int, ...] | None = None
        match some(*range(9)):
            case 0:
                window = (1, some(3, 5, 7))[:: some(1, -1)]
            case 1:
                window = (some(5, 5, 7, 9),) * 2
                stride = some(1, 1, 2)
            case 2:
                dilation = some(*_DILATIONS)
            case 3:
                stride = some(*_PATCHES)
                window, padding = (stride, stride), 0
                channels = some(3, channels)
            case 4:
                window, stride, padding = (4, 4), some(1, 2, 2), some(0, 1, 1, 2)
            case 5:
                window = (some(3, 5, 7, 9, 11),) * 2
                channels, stride, padding = some(1, 3, 3, 4), some(1, 2, 4), some(0, 1, 2, 3, 5)
                filters, x = min(filters, 128), (some(112, 128, 224, 227, 256, 299),) * 2
            case 6:
                x, window = (1, some(*_LENGTHS)), (1, some(1, 2, 3, 3, 5, 8, 10))
                stride, padding = some(1, 1, 2, 5), some(0, window[1] // 2)
                padding = (0, padding)
            case 7:
                size = some(7, 14, 28, 56, 112)
                x = (some(*_DEPTHS), size, size)
                window = ((3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1), (1, 1, 1))[some(*range(5))]
                stride, channels = some(1, 1, 2), some(3, channels, channels)
            case _:
                channels, filters = (some(*range(1, 300)) for _ in range(2))
                x = (some(*range(5, 120)), some(*range(5, 120)))
                window = (some(1, 2, 3, 3, 4, 5), some(1, 2, 3, 3, 4, 5))
                stride, padding = some(1, 1, 2, 3), (some(0, 1, 2), some(0, 1, 2))
        if padding is None:
            padding = tuple(dilation * (taps // 2) for taps in window)
        try:
            yield ConvProblem.create(
                list(Direction)[some(*range(3))],
                (some(*batches), channels, *x),
                (filters, channels, *window),
                padding=padding,
                stride=(1, stride) if x[0] == 1 else stride,
                dilation=dilation,
            )
        except ProblemError:  # a filter that does not fit
            continue
        count -= 1
