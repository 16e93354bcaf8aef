"""The kernels of the GEMM lowering as functions: im2col and col2im, for all axes at once.

Columns are the matrix between a convolution and a product: channels first, for each image,
[channel][tap][position]; channels last [image][position][group][tap][channel of the group].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Indices = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Window:
    """The last eighteen arguments of the kernels: sizes, steps and padding along three axes."""

    x: tuple[int, ...]
    filter: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    @classmethod
    def of(cls, numbers: tuple[np.int32, ...]) -> Window:
        """Take the numbers three by three."""
        values = [int(number) for number in numbers]
        return cls(*(tuple(values[at : at + 3]) for at in range(0, 18, 3)))

    @property
    def elements(self) -> int:
        """Elements of a channel of x."""
        return int(np.prod(self.x))

    @property
    def taps(self) -> int:
        """Elements of a filter in one channel."""
        return int(np.prod(self.filter))

    def places(self, start: int, positions: int) -> Indices:
        """Return the element of x that each tap reads at each position; outside x `elements`.

        The result is of shape (taps, positions).
        """
        out = np.unravel_index(np.arange(start, start + positions), self.y)
        tap = np.unravel_index(np.arange(self.taps), self.filter)
        at = [
            o[None, :] * stride - pad + t[:, None] * dilation
            for o, t, stride, pad, dilation in zip(
                out, tap, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        inside = np.all([(a >= 0) & (a < size) for a, size in zip(at, self.x, strict=True)], axis=0)
        place = (at[0] * self.x[1] + at[1]) * self.x[2] + at[2]
        return np.where(inside, place, self.elements)


def im2col_first(x: Bytes, columns: Bytes, channels: int, *rest: Any) -> None:
    """Gather the columns of some positions of some images, channels first."""
    (image, images, start, positions), window = rest[:4], Window.of(rest[4:])
    source = _floats(x, image + images, channels, window.elements)[image:]
    target = _floats(columns, images, channels, window.taps, positions)
    target[...] = _padded(source, axis=2)[:, :, window.places(start, positions)]


def im2col_last(
    x: Bytes, columns: Bytes, channels: int, groups: int, _taps: int, _length: int, *rest: Any
) -> None:
    """Gather the columns of some positions of some images, channels last."""
    (image, images, start, positions), window = rest[:4], Window.of(rest[4:])
    inner = channels // groups
    source = _floats(x, image + images, window.elements, groups, inner)[image:]
    target = _floats(columns, images, positions, groups, window.taps, inner)
    gathered = _padded(source, axis=1)[:, window.places(start, positions)]
    target[...] = np.moveaxis(gathered, 1, 3)  # was image, tap, position, group, channel


def col2im_first(columns: Bytes, x: Bytes, channels: int, *rest: Any) -> None:
    """Add the columns of some positions to the elements of x, channels first."""
    (image, images, start, positions), window = rest[:4], Window.of(rest[-18:])
    source = _floats(columns, images, channels, window.taps, positions)
    target = _floats(x, image + images, channels, window.elements)[image:]
    sums = np.zeros((images, channels, window.elements + 1), np.float32)
    for tap, places in enumerate(window.places(start, positions)):
        sums[:, :, places] += source[:, :, tap]  # a tap reads each element once at most
    _store(target, sums[:, :, :-1], *rest[4:9])


def col2im_last(columns: Bytes, x: Bytes, channels: int, groups: int, *rest: Any) -> None:
    """Add the columns of some positions to the elements of x, channels last."""
    (image, images, start, positions), window = rest[:4], Window.of(rest[-18:])
    inner = channels // groups
    source = _floats(columns, images, positions, groups, window.taps, inner)
    target = _floats(x, image + images, window.elements, channels)[image:]
    sums = np.zeros((images, window.elements + 1, groups, inner), np.float32)
    for tap, places in enumerate(window.places(start, positions)):
        sums[:, places] += source[:, :, :, tap]
    moved = sums[:, :-1].reshape(images, window.elements, channels)
    _store(np.moveaxis(target, 1, 2), np.moveaxis(moved, 1, 2), *rest[4:9])


def _store(
    target: Floats, sums: Floats, first: int, count: int, fresh: int, alpha: float, beta: float
) -> None:
    """Add sums to the elements from ``first`` on; those from ``fresh`` on get beta * x first."""
    for begin, end, factor in ((first, fresh, 1.0), (fresh, first + count, beta)):
        into, added = target[:, :, begin:end], alpha * sums[:, :, begin:end]
        if begin < end:
            into[...] = added if factor == 0 else added + factor * into


def _floats(memory: Bytes, *shape: int) -> Floats:
    size = int(np.prod(shape))
    return memory[: 4 * size].view(np.float32).reshape(shape)


def _padded(values: Floats, axis: int) -> Floats:
    """Append a zero along an axis, for taps that are outside."""
    widths = [(0, int(at == axis)) for at in range(values.ndim)]
    return np.pad(values, widths)


#: Functions by entry point, called with bytes for memory and NumPy scalars for numbers.
FUNCTIONS: Mapping[str, Callable[..., None]] = {
    function.__name__: function
    for function in (im2col_first, im2col_last, col2im_first, col2im_last)
}
