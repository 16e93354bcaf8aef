"""Tensors at the border: what a caller passes in, and the memory that kernels see."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.errors import DeviceError, ProblemError
from convfind.problem import ConvProblem
from convfind.runtime.backend import DeviceBuffer, SharedBuffer, TensorForm
from convfind.types import DataType

Array = np.ndarray[Any, Any]

_DLPACK_CPU = 1
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A tensor in the memory of an opened device; made by `Handle.tensor` or returned by a run.

    ``shape`` is in the order of the layout in memory. Where the backend shares its memory, other
    libraries take the tensor without a copy: ``torch.from_dlpack(tensor)``.
    """

    buffer: DeviceBuffer
    shape: tuple[int, ...]
    dtype: DataType
    strides: tuple[int, ...] = ()  # steps in elements; empty for a packed tensor

    @property
    def form(self) -> TensorForm:
        """What the tensor says of itself."""
        return TensorForm(self.shape, self.strides or packed_steps(self.shape), self.dtype.value)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's kind and number of the device. Raises `BufferError` where it has none."""
        return self._shared().dlpack_device()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a capsule as the Python array API has it; it keeps the memory alive.

        ``stream`` waits for what the device has under way. The capsule is of DLPack 0.8, which
        every ``max_version`` allows. Raises `BufferError` for a copy or another device.
        """
        shared = self._shared()
        if copy:
            msg = "copy=True: the memory is shared and not copied; copy what it is taken into"
            raise BufferError(msg)
        if dl_device is not None and tuple(dl_device) != shared.dlpack_device():
            msg = f"DLPack device {tuple(dl_device)}: the tensor lies on {shared.dlpack_device()}"
            raise BufferError(msg)
        return shared.dlpack(self.form, stream)

    def _shared(self) -> SharedBuffer:
        if not isinstance(self.buffer, SharedBuffer):
            kind = type(self.buffer).__name__
            msg = f"{kind} is not shared with other libraries; use Handle.to_numpy"
            raise BufferError(msg)
        return self.buffer


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
    if isinstance(value, DeviceTensor):
        raise ProblemError("tensor", "DeviceTensor", "one of the host; use Handle.to_numpy")
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


def packed_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the steps of a tensor without gaps, in elements; axes in the order of the memory."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def check_form(problem: ConvProblem, name: str, form: TensorForm) -> None:
    """Refuse a tensor on the device that is not laid out as the problem says.

    Axes may be in either of the orders that `memory_of` takes. Raises `ProblemError`.
    """
    dtype = problem.tensor_dtype(name)
    if form.dtype != dtype.value:
        raise ProblemError(name, form.dtype, f"dtype {dtype.value}")
    layout = problem.tensor_layout(name)
    shape, strides = problem.shape(name), problem.strides(name)
    orders = ((layout.to_memory(shape), layout.to_memory(strides)), (shape, strides))
    if not any(
        form.shape == sizes and _same_steps(sizes, form.strides, steps) for sizes, steps in orders
    ):
        given, legal = (
            f"shape {pair[0]} with strides {pair[1]}"
            for pair in ((form.shape, form.strides), orders[0])
        )
        raise ProblemError(name, given, f"{legal} ({layout.value})")


def _same_steps(shape: tuple[int, ...], given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return all(
        size == 1 or step == want for size, step, want in zip(shape, given, wanted, strict=True)
    )
