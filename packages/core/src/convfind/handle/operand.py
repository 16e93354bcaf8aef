"""`Operand`: a tensor that a call names, on the device or on the host."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from convfind.errors import ProblemError
from convfind.problem.contract import Problem
from convfind.problem.tensor_spec import are_disjoint
from convfind.runtime.backend import Device, DeviceBuffer, TensorForm
from convfind.runtime.tensors import (
    DeviceTensor,
    axes_of,
    check_form,
    form_of,
    in_memory_order,
    memory_of,
    to_host_array,
)
from convfind.types import Layout

Array = np.ndarray[Any, Any]

#: How long NumPy may look for an element that two arrays with gaps share.
_MOST_WORK = 10_000


class Operand(NamedTuple):
    """A tensor that a call names: a buffer of the device, or an array of the host."""

    problem: Problem
    name: str
    axes: Layout | None  # whose order the caller's tensor has; None where that is not told
    buffer: DeviceBuffer | None
    array: Array | None  # axes in the order of the layout

    @property
    def is_on_device(self) -> bool:
        """True where kernels can use it as it is."""
        return self.buffer is not None

    def memory(self, device: Device, *, copying: bool) -> DeviceBuffer:
        """Return memory with its contents: of an array a copy, or perhaps the array's own."""
        if self.buffer is not None:
            return self.buffer
        assert self.array is not None
        memory = memory_of(self.problem, self.name, self.array)
        return copied(device, memory) if copying else device.upload(memory)

    def is_array_of(self, other: Operand) -> bool:
        """True where two arrays of the host are the same elements in the same memory."""
        if self.array is None or other.array is None:
            return False
        one, same = self.array.__array_interface__["data"], other.array.__array_interface__["data"]
        return bool(one[0] == same[0]) and self.array.strides == other.array.strides

    def shares_array(self, other: Operand) -> bool:
        """True where two arrays of the host have an element's memory in common."""
        if self.array is None or other.array is None:
            return False
        try:
            return np.shares_memory(
                self.array,
                other.array,
                max_work=_MOST_WORK,  # type: ignore[arg-type]  # any number, says its document
            )
        except np.exceptions.TooHardError:
            return True


def operand_of(
    device: Device, problem: Problem, name: str, value: object, *, out: bool = False
) -> Operand:
    """Take a tensor of any kind that a caller may pass for an operand or the result.

    Raises:
        DeviceError: it lies on another device.
        ProblemError: it is not what the problem says, its axes could be in either order, or it is
            to be written and cannot be.
    """
    if isinstance(value, DeviceTensor):
        return _on_device(problem, name, value.buffer, value.form, out=out)
    buffer = device.adopt(value)
    if buffer is not None:
        return _on_device(problem, name, buffer, getattr(buffer, "form", None), out=out)
    if out and not isinstance(value, np.ndarray) and not hasattr(value, "__dlpack_device__"):
        raise ProblemError("out", type(value).__name__, "a writable array or DLPack tensor")
    array = to_host_array(value, "out" if out else name)
    if out:
        _check_written(array)
    axes = axes_of(problem, name, form_of(array))
    return Operand(problem, name, axes, None, in_memory_order(problem, name, array, axes))


def copied(device: Device, array: Array) -> DeviceBuffer:
    """Return memory of the device with a copy of a C-contiguous array."""
    buffer = device.allocate(array.nbytes)
    device.write(buffer, array)
    return buffer


def _check_written(array: Array) -> None:
    if not array.flags.writeable:
        raise ProblemError("out", "read-only array", "a writable array")
    if array.flags.c_contiguous or 0 in array.shape:
        return
    steps = (*map(abs, array.strides), 1)  # an element is as many bytes
    if not are_disjoint((*array.shape, array.itemsize), steps):
        given = f"shape {array.shape} with strides of {array.strides} bytes"
        raise ProblemError("out", given, "an array whose elements do not share memory")


def _on_device(
    problem: Problem, name: str, buffer: DeviceBuffer, form: TensorForm | None, *, out: bool
) -> Operand:
    axes = None if form is None else check_form(problem, name, form)
    needed = problem.operand(name).nbytes
    if buffer.size < needed:
        raise ProblemError(name, f"{buffer.size} bytes", f"{needed} bytes or more")
    if out and getattr(buffer, "read_only", False):
        raise ProblemError("out", "read-only memory", "memory that kernels can write")
    return Operand(problem, name, axes, buffer, None)
