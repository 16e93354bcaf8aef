"""`TensorType`: element type and shape of a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind_networks.errors import GraphError

Array = np.ndarray[Any, Any]

#: Elements of the largest tensor: what lies beyond is a damaged model.
LARGEST_TENSOR = 2**40


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether a type is a floating type; those of ml_dtypes are none to NumPy."""
    return "float" in dtype.name


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape of a tensor.

    Element types are NumPy's, with bfloat16 and smaller floating types from ml_dtypes. All sizes
    are known: a graph is made for given shapes of the inputs.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(size < 0 for size in self.shape) or self.elements > LARGEST_TENSOR:
            raise GraphError(f"a tensor of shape {self.shape} is not possible")

    @classmethod
    def of(cls, array: Array) -> TensorType:
        """Return the type of an array."""
        return cls(array.dtype, array.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the packed tensor."""
        return self.elements * self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        """True for floating-point elements."""
        return is_float(self.dtype)

    def with_shape(self, shape: Iterable[int]) -> TensorType:
        """Return the type of a tensor with these elements and another shape."""
        return TensorType(self.dtype, tuple(int(size) for size in shape))

    def with_dtype(self, dtype: np.dtype[Any] | type[np.generic]) -> TensorType:
        """Return the type of a tensor with this shape and other elements."""
        return TensorType(np.dtype(dtype), self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"
