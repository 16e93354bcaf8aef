"""Padding in NumPy, for references: tensors with elements around them."""

from __future__ import annotations

from collections.abc import Sequence
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
