"""`ElementType`: the types of elements that operators know, more than convolutions have."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from convfind.types import DataType


class ElementType(StrEnum):
    """The type of a tensor's elements; in words that are those of NumPy."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT64 = "uint64"
    UINT32 = "uint32"
    UINT16 = "uint16"
    UINT8 = "uint8"
    BOOL = "bool"

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type."""
        if self is ElementType.BFLOAT16:
            return DataType.BFLOAT16.numpy
        return np.dtype(self.value)

    @property
    def is_float(self) -> bool:
        """True for the floating-point types."""
        return self in _UNIT_ROUNDOFF

    @property
    def arithmetic(self) -> ElementType:
        """The type in which kernels compute with such elements."""
        if self.is_float:
            return self if self is ElementType.FLOAT64 else ElementType.FLOAT32
        return _ARITHMETIC.get(self, ElementType.INT32)

    @property
    def is_unsigned(self) -> bool:
        """True for whole numbers from 0 on."""
        return self.startswith("uint")

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding to this type; 0 for whole numbers."""
        return _UNIT_ROUNDOFF.get(self, 0.0)


#: The type of computation for whole numbers that 32 bits with a sign cannot hold.
_ARITHMETIC = {
    ElementType.INT64: ElementType.INT64,
    ElementType.UINT32: ElementType.INT64,
    ElementType.UINT64: ElementType.UINT64,
}
_UNIT_ROUNDOFF = {
    ElementType.FLOAT64: 2.0**-53,
    ElementType.FLOAT32: 2.0**-24,
    ElementType.FLOAT16: 2.0**-11,
    ElementType.BFLOAT16: 2.0**-8,
}
