"""Copies of tensors between the host and a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.errors import ProblemError
from convfind.handle.operand import copied
from convfind.problem.tensor_spec import packed_steps
from convfind.problem.values import enum_value
from convfind.runtime.backend import Device
from convfind.runtime.tensors import DeviceTensor, to_host_array, type_name
from convfind.types import DataType


def to_device(device: Device, array: object) -> DeviceTensor:
    """Copy an array, or a host tensor with DLPack; one that lies channels last stays so.

    Raises:
        ProblemError: no tensor, or of a type that no problem has.
    """
    host = to_host_array(array)
    dtype = enum_value("tensor", DataType, type_name(host.dtype))
    lies_last = host.ndim > 2 and not host.flags.c_contiguous
    if lies_last and np.moveaxis(host, 1, -1).flags.c_contiguous:
        memory = np.moveaxis(host, 1, -1)
        batch, *others, channels = packed_steps(memory.shape)
        strides = (batch, channels, *others)
    else:
        memory, strides = np.ascontiguousarray(host), packed_steps(host.shape)
    with device.lock:
        buffer = copied(device, memory)
    return DeviceTensor(buffer, host.shape, dtype, strides)


def to_host(device: Device, tensor: DeviceTensor) -> Any:
    """Copy a tensor, with its strides, after everything enqueued before.

    Raises `ProblemError` for anything but a tensor of the device.
    """
    if not isinstance(tensor, DeviceTensor):
        kind = type(tensor).__name__
        raise ProblemError("tensor", kind, "a DeviceTensor, which Handle.tensor and runs return")
    if 0 in tensor.shape:
        return np.empty(tensor.shape, tensor.dtype.numpy)
    steps = tensor.form.strides
    spanned = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, steps, strict=True))
    memory = np.empty(spanned, tensor.dtype.numpy)
    with device.lock:
        device.read(tensor.buffer, memory)
    bytes_each = tuple(step * memory.itemsize for step in steps)
    return np.lib.stride_tricks.as_strided(memory, tensor.shape, bytes_each)
