"""`tensor_map`: descriptions of tensors for Hopper's copy engine, as kernels take them."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver

from convfind.errors import LaunchError
from convfind.solver.recipe import TensorMapArg
from convfind.types import DataType
from convfind_backend_cuda.errors import checked

_BYTES = 128
_TYPES = {
    DataType.FLOAT32: "FLOAT32",
    DataType.FLOAT16: "FLOAT16",
    DataType.BFLOAT16: "BFLOAT16",
}


def tensor_map(argument: TensorMapArg, address: int) -> bytes:
    """Return the map of a tensor at an address. Raises `LaunchError` where there is none."""
    size = argument.dtype.size
    kind = "TFLOAT32" if argument.rounds else _TYPES[argument.dtype]
    dtype = _value("CUtensorMapDataType", "DATA_TYPE", kind)
    rank = len(argument.sizes)
    sizes = [driver.cuuint64_t(number) for number in argument.sizes]
    strides = [driver.cuuint64_t(number * size) for number in argument.strides]
    layout = (
        _value("CUtensorMapInterleave", "INTERLEAVE", "NONE"),
        _value("CUtensorMapSwizzle", "SWIZZLE", "128B" if argument.spreads else "NONE"),
        _value("CUtensorMapL2promotion", "L2_PROMOTION", "L2_256B"),
        _value("CUtensorMapFloatOOBfill", "FLOAT_OOB_FILL", "NONE"),
    )
    windows = argument.windows
    if windows is None:
        call = "cuTensorMapEncodeTiled"
        box = [driver.cuuint32_t(number) for number in argument.box]
        steps = [driver.cuuint32_t(1)] * rank
        made = driver.cuTensorMapEncodeTiled(
            dtype, rank, address, sizes, strides, box, steps, *layout
        )
    else:
        call = "cuTensorMapEncodeIm2col"
        axes = zip(windows.first, windows.counts, windows.steps, argument.sizes[1:-1], strict=True)
        # The upper corner is where the last window begins, counted from the last element.
        upper = [first + (count - 1) * step + 1 - whole for first, count, step, whole in axes]
        channels, positions = argument.box
        steps = [driver.cuuint32_t(number) for number in (1, *windows.steps, 1)]
        made = driver.cuTensorMapEncodeIm2col(
            *(dtype, rank, address, sizes, strides, list(windows.first), upper),
            *(channels, positions, steps, *layout),
        )
    doing = f"tensor map of {argument.memory}, {argument.sizes}"
    found = checked(made, call, doing, LaunchError)
    return ctypes.string_at(found.getPtr(), _BYTES)


def _value(enumeration: str, kind: str, name: str) -> Any:
    return getattr(getattr(driver, enumeration), f"CU_TENSOR_MAP_{kind}_{name}")
