"""Conversion between a caller's tensors and the memory that kernels see."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from convfind.errors import DeviceError, ProblemError
from convfind.problem.contract import Problem
from convfind.problem.tensor_spec import ElementType, packed_steps
from convfind.runtime.backend import DeviceBuffer, SharedBuffer, TensorForm
from convfind.types import DataType, Layout

Array = np.ndarray[Any, Any]

_DLPACK_CPU = 1
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A tensor in the memory of an opened device; made by `Handle.tensor` or returned by a run.

    If the backend shares its memory, other libraries can use the tensor without a copy:
    ``torch.from_dlpack(tensor)``.
    """

    buffer: DeviceBuffer
    shape: tuple[int, ...]
    dtype: ElementType
    strides: tuple[int, ...] = ()  # steps in elements; empty for a packed tensor
    axes: Layout | None = None  # whose order the axes have: results know it

    @property
    def form(self) -> TensorForm:
        """Form of the tensor: axis sizes, strides, type."""
        steps = self.strides or packed_steps(self.shape)
        return TensorForm(self.shape, steps, self.dtype.value, self.axes)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's kind and number of the device. Raises `BufferError` if it has none."""
        return self._shared().dlpack_device()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a capsule as in the Python array API; it keeps the memory alive.

        ``stream`` waits for the device's enqueued work. The capsule is of DLPack 0.8, which
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


def tensor_view(problem: Problem, name: str, memory: Array) -> Array:
    """Return one-dimensional memory as an operand, with axes in the order of its layout.

    ``memory`` holds at least as many bytes as the operand spans; nothing is copied.
    """
    return problem.operand(name).view(memory)


def empty_memory(problem: Problem, name: str) -> Array:
    """Return memory for a tensor: zeros, so that gaps have a value.

    It is aligned for devices that share the host's memory.
    """
    operand = problem.operand(name)
    size = operand.nbytes
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(operand.dtype.numpy)


def to_host_array(value: object, name: str = "tensor") -> Array:
    """Return a NumPy array for an array, a host object with DLPack, or nested sequences.

    PyTorch's bfloat16, which NumPy's DLPack does not support, is used in place too.

    Raises:
        DeviceError: the tensor is on a device that NumPy cannot access.
        ProblemError: it is no tensor, or of a type that NumPy does not support.
    """
    if isinstance(value, np.ndarray):
        return value
    kind = type(value).__name__
    if isinstance(value, DeviceTensor):
        raise ProblemError(name, kind, "one of the host; use Handle.to_numpy")
    if hasattr(value, "__dlpack_device__"):
        place, index = dlpack_device(value, name)
        if place != _DLPACK_CPU:
            msg = (
                f"tensor lies on DLPack device {place}:{index}, beyond the reach of the host; "
                "copy it to the host first"
            )
            raise DeviceError(msg)
        if getattr(value, "requires_grad", False):
            raise ProblemError(name, f"{kind} that requires a gradient", "its detach()")
        try:
            return _from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as exc:
            raise ProblemError(name, kind, f"a type that NumPy knows ({exc})") from exc
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as exc:
        raise ProblemError(name, kind, "an array or a DLPack tensor") from exc
    if array.dtype == object:
        raise ProblemError(name, kind, "an array or a DLPack tensor")
    return array


def dlpack_device(tensor: Any, name: str = "tensor") -> tuple[int, int]:
    """Return DLPack's kind and number of a tensor's device. Raises `ProblemError` without one."""
    try:
        kind, number = tensor.__dlpack_device__()
        return int(kind), int(number)
    except (BufferError, RuntimeError, TypeError, ValueError) as exc:
        shown = type(tensor).__name__
        raise ProblemError(name, shown, f"a tensor that has memory to share ({exc})") from exc


def _from_dlpack(tensor: Any) -> Array:
    torch = sys.modules.get("torch")  # a tensor of it can only come from a program that has it
    array: Array
    if torch is None or not isinstance(tensor, torch.Tensor):
        array = np.from_dlpack(tensor)
    elif tensor.dtype is torch.bfloat16:
        array = tensor.view(torch.int16).numpy().view(DataType.BFLOAT16.numpy)
    else:
        array = tensor.numpy()  # the same memory as by DLPack, at a tenth of the time
    return array


def memory_of(problem: Problem, name: str, array: Array) -> Array:
    """Return the memory of a tensor as the kernels expect it: one-dimensional, gaps included.

    The axes of ``array`` are in the order of the layout. Nothing is copied if the memory is right
    already.

    Raises:
        ProblemError: shape or type differ from what the problem says.
    """
    operand = problem.operand(name)
    if array.dtype != operand.dtype.numpy:
        raise ProblemError(name, str(array.dtype), f"dtype {operand.dtype.value}")
    expected = operand.in_memory(operand.shape)
    if array.shape != expected:
        raise ProblemError(name, array.shape, f"shape {expected}{_named(operand.layout)}")
    steps = tuple(step * array.itemsize for step in operand.in_memory(operand.strides))
    if _same_steps(array.shape, array.strides, steps):
        span = operand.nbytes // array.itemsize
        if span == array.size and array.flags.c_contiguous:
            return array.reshape(-1)  # the same at a quarter of the time
        return np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
    memory = empty_memory(problem, name)
    tensor_view(problem, name, memory)[...] = array
    return memory


def axes_of(problem: Problem, name: str, form: TensorForm) -> Layout | None:
    """Return which order the axes of a tensor have; None if both orders are the same tensor.

    Channels-last tensors come in the order of their layout (N, H, W, C) or in N, C, spatial order,
    as frameworks show them. The shape tells which. If C, H and W are equal, a tensor is in
    N, C, spatial order if its strides show that it is channels last in memory; otherwise it is
    refused.

    Raises:
        ProblemError: type or shape do not match the problem, or the order is ambiguous.
    """
    operand = problem.operand(name)
    if form.dtype != operand.dtype.value:
        raise ProblemError(name, form.dtype, f"dtype {operand.dtype.value}")
    layout, shape = operand.layout, operand.shape
    if layout is None:
        if form.shape != shape:
            raise ProblemError(name, form.shape, f"shape {shape}")
        return None
    if not layout.channels_last and form.shape == shape and form.axes in (None, layout):
        return None
    first = Layout.of(layout.spatial_rank)
    orders = (layout, first) if layout.channels_last else (layout,)
    fitting = [
        order
        for order in orders
        if form.axes in (None, order) and order.to_memory(shape) == form.shape
    ]
    if not fitting:
        given = form.shape if form.axes is None else (*form.shape, form.axes.value)
        legal = f"shape {layout.to_memory(shape)} ({layout.value})"
        raise ProblemError(name, given, legal + (f" or {shape}" if layout is not first else ""))
    if len(fitting) == 1:
        return fitting[0]
    channels, *others = form.strides[1:]
    if shape[1] == 1 or 0 in shape or all(step == channels for step in others):
        return None
    if 0 < abs(channels) < min(map(abs, others)):
        return first
    moved = (0, len(shape) - 1, *range(1, len(shape) - 1))
    raise ProblemError(
        name,
        form.shape,
        f"{first.value} order over {layout.value} memory where both orders have this shape: "
        f"transpose{moved} of an {layout.value} array, torch.channels_last of a tensor",
    )


def in_memory_order(problem: Problem, name: str, array: Array, axes: Layout | None) -> Array:
    """Return a view, with axes in memory order, of an array whose axes have the order ``axes``."""
    return np.moveaxis(array, 1, -1) if _are_moved(problem, name, axes) else array


def in_order(problem: Problem, name: str, array: Array, axes: Layout | None) -> Array:
    """Return a view, with axes in the order ``axes``, of an array with axes in memory order."""
    return np.moveaxis(array, -1, 1) if _are_moved(problem, name, axes) else array


def _are_moved(problem: Problem, name: str, axes: Layout | None) -> bool:
    """Return whether channels are shown first and lie last."""
    layout = problem.operand(name).layout
    is_shown_first = axes is not None and not axes.channels_last
    return is_shown_first and layout is not None and layout.channels_last


def form_of(array: Array) -> TensorForm:
    """Return the form of an array in memory."""
    steps = tuple(step // max(array.itemsize, 1) for step in array.strides)
    return TensorForm(array.shape, steps, type_name(array.dtype))


@lru_cache(maxsize=64)
def type_name(dtype: np.dtype[Any]) -> str:
    """Return NumPy's name of a type, which does not tell that its bytes are in a foreign order.

    Such a type has another name here: kernels would take its bytes for other numbers.
    """
    return dtype.name if dtype.isnative else f"{dtype.name} of foreign byte order"


def check_form(problem: Problem, name: str, form: TensorForm) -> Layout | None:
    """Refuse a device tensor whose layout does not match the problem; return its `axes_of`.

    Raises `ProblemError`.
    """
    axes = axes_of(problem, name, form)
    operand = problem.operand(name)
    layout = operand.layout
    order = axes or layout
    steps = operand.strides if order is None else order.to_memory(operand.strides)
    if not _same_steps(form.shape, form.strides, steps):
        given = f"shape {form.shape} with strides {form.strides}"
        raise ProblemError(name, given, f"strides {steps}{_named(layout, ' memory')}")
    return axes


def _named(layout: Layout | None, more: str = "") -> str:
    return "" if layout is None else f" ({layout.value}{more})"


def _same_steps(shape: tuple[int, ...], given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return 0 in shape or all(
        size == 1 or step == want for size, step, want in zip(shape, given, wanted, strict=True)
    )
