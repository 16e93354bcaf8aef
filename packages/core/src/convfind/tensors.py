"""Tensors at the border: what a caller passes in, and the memory that kernels see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.backend import DeviceBuffer
from convfind.errors import DeviceError, ProblemError
from convfind.problem import ConvProblem
from convfind.types import DataType

Array = np.ndarray[Any, Any]

_DLPACK_CPU = 1
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A tensor in the memory of an opened device; made by `Handle.tensor` or returned by a run.

    ``shape`` is in the order of the layout in memory.
    """

    buffer: DeviceBuffer
    shape: tuple[int, ...]
    dtype: DataType


def tensor_view(problem: ConvProblem, name: str, memory: Array) -> Array:
    """Show one-dimensional memory as ``x``, ``w`` or ``y``, axes in the order of its layout.

    ``memory`` holds bytes or elements, `ConvProblem.elements` of them at least; nothing is copied.
    """
    dtype = problem.tensor_dtype(name).numpy
    layout = problem.tensor_layout(name)
    strides = tuple(step * dtype.itemsize for step in layout.to_memory(problem.strides(name)))
    flat = memory.view(np.uint8)
    return np.ndarray(layout.to_memory(problem.shape(name)), dtype, flat.data, 0, strides)


def empty_memory(problem: ConvProblem, name: str) -> Array:
    """Return memory for a tensor: zeros, so that gaps have a value.

    It is aligned as devices that share the host's memory want it.
    """
    size = problem.nbytes(name)
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(problem.tensor_dtype(name).numpy)


def to_host_array(value: object) -> Array:
    """Return a NumPy array for an array, anything with DLPack on the host, or nested sequences.

    Raises:
        DeviceError: the tensor lies on a device that NumPy cannot reach.
        ProblemError: it is no tensor at all, or of a type that NumPy does not know.
    """
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack_device__"):
        kind, index = value.__dlpack_device__()
        if int(kind) != _DLPACK_CPU:
            msg = (
                f"tensor lies on DLPack device {int(kind)}:{index}, beyond the reach of the host; "
                "copy it to the host first"
            )
            raise DeviceError(msg)
        try:
            return np.from_dlpack(value)  # type: ignore[arg-type]
        except (BufferError, RuntimeError, TypeError) as exc:
            raise ProblemError(
                "tensor", type(value).__name__, f"a type that NumPy knows ({exc})"
            ) from exc
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as exc:
        raise ProblemError("tensor", type(value).__name__, "an array or a DLPack tensor") from exc
    if array.dtype == object:
        raise ProblemError("tensor", type(value).__name__, "an array or a DLPack tensor")
    return array


def memory_of(problem: ConvProblem, name: str, value: object) -> Array:
    """Return the memory of a tensor as the kernels expect it: one-dimensional, gaps included.

    The axes of ``value`` may be in the order of the layout (N, H, W, C for NHWC) or in N, C,
    spatial order, as frameworks show channels-last tensors; where both fit, the order of the
    layout counts. Nothing is copied if the memory is right already.

    Raises:
        ProblemError: shape or type differ from what the problem says.
    """
    array = to_host_array(value)
    dtype = problem.tensor_dtype(name)
    if array.dtype != dtype.numpy:
        raise ProblemError(name, str(array.dtype), f"dtype {dtype.value}")
    layout = problem.tensor_layout(name)
    logical = problem.shape(name)
    expected = layout.to_memory(logical)
    if array.shape != expected:
        if array.shape != logical:
            legal = f"shape {expected} ({layout.value})"
            raise ProblemError(
                name, array.shape, legal + (f" or {logical}" if logical != expected else "")
            )
        array = np.moveaxis(array, 1, -1)
    steps = tuple(step * array.itemsize for step in layout.to_memory(problem.strides(name)))
    if _same_steps(array.shape, array.strides, steps):
        return np.lib.stride_tricks.as_strided(array, (problem.elements(name),), (array.itemsize,))
    memory = empty_memory(problem, name)
    tensor_view(problem, name, memory)[...] = array
    return memory


def _same_steps(shape: tuple[int, ...], given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return all(
        size == 1 or step == want for size, step, want in zip(shape, given, wanted, strict=True)
    )
