"""`Operand`: a tensor that an operator reads or writes; its element type is one of more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.problem.tensor_spec import TensorSpec
from convfind_operators.element_type import ElementType

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def packed_strides(shape: Shape, *, channels_last: bool = False) -> Shape:
    """Return strides, in elements, of a tensor without gaps; axis 1 is that of the channels."""
    order = list(range(len(shape)))
    if channels_last and len(shape) > 2:
        order.append(order.pop(1))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


@dataclass(frozen=True)
class Operand(TensorSpec):
    """A tensor in memory of its own name."""

    dtype: ElementType
