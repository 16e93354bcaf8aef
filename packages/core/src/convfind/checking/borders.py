"""Padding in NumPy, for references: tensors with elements around them, and windows over both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Numbers = Sequence[int]


class PadMode(StrEnum):
    """The contents of the padding around a tensor."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"
    WRAP = "wrap"


def padded(x: Array, begin: Numbers, end: Numbers, mode: PadMode, value: float = 0.0) -> Array:
    """Return x with so many elements more at the ends of each axis; negative ones are cut off.

    First elements are added, by NumPy's modes, then others cut off.
    """
    around = [(max(b, 0), max(e, 0)) for b, e in zip(begin, end, strict=True)]
    options: dict[str, Any] = {}
    if mode is PadMode.CONSTANT:
        options["constant_values"] = x.dtype.type(value)
    grown = np.pad(x, around, mode=mode.value, **options)
    kept = (
        slice(max(-b, 0), size - max(-e, 0))
        for b, e, size in zip(begin, end, grown.shape, strict=True)
    )
    return grown[tuple(kept)]


def window_taps(
    data: Array,
    *,
    size: Numbers,
    stride: Numbers,
    dilation: Numbers,
    padding: Numbers,
    padding_end: Numbers,
    counts: Numbers,
    fill: Any,
    border: Any = None,
) -> Iterator[Array]:
    """Yield, for each tap of a window, the element that every position of it meets there.

    Args:
        data: batch, channels, spatial.
        size: the window's taps along each spatial axis.
        stride: from one position to the next.
        dilation: from one tap to the next.
        padding: elements before the data.
        padding_end: elements behind them.
        counts: positions along each axis.
        fill: what the padding holds.
        border: what lies beyond it, where positions reach so far; None: as the padding.
    """
    around, beyond = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    axes = zip(data.shape[2:], size, stride, dilation, padding, padding_end, counts, strict=True)
    for extent, taps, step, gap, begin, end, count in axes:
        needed = (count - 1) * step + gap * (taps - 1) + 1
        around.append((begin, end))
        beyond.append((0, max(0, needed - extent - begin - end)))
    grown = np.pad(data, around, constant_values=fill)
    grown = np.pad(grown, beyond, constant_values=fill if border is None else border)
    for tap in np.ndindex(*size):
        where: tuple[Any, ...] = tuple(
            slice(at * gap, at * gap + (count - 1) * step + 1, step)
            for at, gap, count, step in zip(tap, dilation, counts, stride, strict=True)
        )
        yield grown[(..., *where)]
