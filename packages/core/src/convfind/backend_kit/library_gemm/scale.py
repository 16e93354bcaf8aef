"""`gemm_scale`: alpha or beta of a product, in the C type that a library wants it in."""

from __future__ import annotations

from ctypes import c_float, c_int32

from convfind.errors import LaunchError


def gemm_scale(value: float, *, integer: bool) -> c_int32 | c_float:
    """Return a factor of a product of whole or of floating-point numbers.

    Raises:
        LaunchError: the factor of a product of whole numbers is none.
    """
    if not integer:
        return c_float(value)
    if value != int(value):
        msg = f"a product in whole numbers takes no scale of {value}; use another solver"
        raise LaunchError(msg)
    return c_int32(int(value))
