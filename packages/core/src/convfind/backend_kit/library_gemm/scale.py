"""`gemm_scale`: alpha or beta of a product, in the C type that a library wants it in."""

from __future__ import annotations

from ctypes import c_double, c_float, c_int32

from convfind.errors import LaunchError
from convfind.types import DataType


def gemm_scale(value: float, result: DataType) -> c_int32 | c_float | c_double:
    """Return a factor of a product whose result has a type.

    Raises:
        LaunchError: the factor of a product of whole numbers is none.
    """
    if result is DataType.FLOAT64:
        return c_double(value)
    if result is not DataType.INT32:
        return c_float(value)
    if value != int(value):
        msg = f"a product in whole numbers takes no scale of {value}; use another solver"
        raise LaunchError(msg)
    return c_int32(int(value))
