"""Other libraries' ROCm tensors through DLPack, used without a copy.

The structures are those of DLPack's header, version 0.8, whose capsules every library hands out.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from math import prod
from typing import Any

from convfind.errors import DeviceError
from convfind_backend_hip.memory import Block, HipBuffer

#: DLPack's number of ROCm devices.
DLPACK_ROCM = 10
_NAME = b"dltensor"
_USED = b"used_dltensor"


class _Device(Structure):
    _fields_ = (("kind", c_int32), ("number", c_int32))


class _DataType(Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", _Device),
        ("rank", c_int32),
        ("dtype", _DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _ManagedTensor(Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_ManagedTensor))
_ManagedTensor._fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter))

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes, _get_pointer.restype = (ctypes.py_object, ctypes.c_char_p), c_void_p
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.argtypes, _set_name.restype = (ctypes.py_object, ctypes.c_char_p), c_int32


def adopt(tensor: object, number: int, stream: int) -> HipBuffer | None:
    """Return the memory of a ROCm tensor, None for anything else.

    The tensor's library makes ``stream`` wait for what it has under way on the tensor.
    Raises `DeviceError` for a tensor of another device or with gaps.
    """
    if isinstance(tensor, HipBuffer):
        return tensor
    asked: Any = getattr(tensor, "__dlpack_device__", None)
    if asked is None:
        return None
    kind, place = asked()
    if int(kind) != DLPACK_ROCM:
        return None
    if int(place) != number:
        msg = f"tensor lies on hip:{place}, and hip:{number} is open; open hip:{place}"
        raise DeviceError(msg)
    exported: Any = tensor
    owner = _Owner(exported.__dlpack__(stream=stream))
    view = owner.tensor
    shape = tuple(view.shape[: view.rank])
    steps = tuple(view.strides[: view.rank]) if view.strides else _packed_steps(shape)
    size = prod(shape) * view.dtype.bits * view.dtype.lanes // 8
    if not _is_dense(shape, steps):
        msg = f"tensor of shape {shape} and strides {steps} has gaps; use its contiguous()"
        raise DeviceError(msg)
    return HipBuffer(Block((view.data or 0) + view.byte_offset, size, owner), size)


class _Owner:
    """Keeps a DLPack tensor until nobody uses its memory any more."""

    __slots__ = ("_managed", "tensor")

    def __init__(self, capsule: object) -> None:
        address = _get_pointer(capsule, _NAME)
        self._managed = ctypes.cast(address, POINTER(_ManagedTensor))
        self.tensor: _Tensor = self._managed.contents.tensor
        _set_name(capsule, _USED)  # it is ours to delete now

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed and managed.contents.deleter:
            managed.contents.deleter(managed)


def _packed_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _is_dense(shape: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """True where the elements fill their memory in some order of the axes, as channels last do."""
    expected = 1
    for step, size in sorted(zip(steps, shape, strict=True)):
        if size == 1:
            continue
        if step != expected:
            return False
        expected *= size
    return True
