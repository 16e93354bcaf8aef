"""DLPack's structures and capsules: another library's tensor opened, and memory of ours shared.

They are those of DLPack's header, version 0.8, which every library takes and hands out.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_void_p, py_object
from math import prod
from sys import getrefcount
from typing import Any

from convfind.errors import DeviceError
from convfind.problem.tensor_spec import packed_steps
from convfind.runtime.backend import TensorForm
from convfind.runtime.tensors import dlpack_device

#: DLPack's numbers of kinds of devices.
CUDA = 2
ROCM = 10
#: Bytes at whose multiples kernels may expect a tensor to start.
_ALIGNMENT = 16

_NAME = b"dltensor"
_USED = b"used_dltensor"

#: NumPy's name of a type by DLPack's code and the bits of an element.
_TYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
}
_CODES = {name: code for code, name in _TYPES.items()}


class _Device(Structure):
    _fields_ = (("kind", c_int32), ("number", c_int32))


class _DataType(Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", _Device),
        ("rank", c_int32),
        ("dtype", _DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _ManagedTensor(Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_ManagedTensor))


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """One of Python's C functions; what others declare of the same function does not touch it."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _python("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
_is_named = _python("PyCapsule_IsValid", c_int32, py_object, c_char_p)
_address_in = _python("PyCapsule_GetPointer", c_void_p, py_object, c_char_p)
_rename = _python("PyCapsule_SetName", c_int32, py_object, c_char_p)
_keep = _python("Py_IncRef", None, py_object)
_let_go = _python("Py_DecRef", None, py_object)


class ForeignTensor:
    """Another library's tensor, given back when nobody refers to this any more."""

    def __init__(self, capsule: object) -> None:
        """Take the tensor out of its capsule. Raises `DeviceError` where there is none in it."""
        if not _is_named(capsule, _NAME):
            msg = f"__dlpack__ returned {capsule!r}; expected a new capsule named dltensor"
            raise DeviceError(msg)
        self._managed = ctypes.cast(_address_in(capsule, _NAME), POINTER(_ManagedTensor))
        _rename(capsule, _USED)  # it is ours to delete now
        tensor: _Tensor = self._managed.contents.tensor
        #: Where its elements begin, as kernels see it.
        self.address: int = (tensor.data or 0) + tensor.byte_offset
        shape = tuple(tensor.shape[: tensor.rank])
        steps = tuple(tensor.strides[: tensor.rank]) if tensor.strides else packed_steps(shape)
        code, lanes = tensor.dtype.code, tensor.dtype.lanes
        bits = tensor.dtype.bits * lanes
        other = f"DLPack's type {code}:{tensor.dtype.bits}" + f"x{lanes}" * (lanes != 1)
        kind = _TYPES.get((code, bits), other) if lanes == 1 else other
        self.form = TensorForm(shape, steps, kind)
        #: Bytes of its elements.
        self.size = prod(shape) * bits // 8

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed and managed.contents.deleter:
            _Deleter(managed.contents.deleter)(managed)


def foreign_tensor(
    tensor: object, backend: str, device: tuple[int, int], stream: int
) -> ForeignTensor | None:
    """Return a tensor of another library on a kind of device; None for anything else.

    The tensor's library makes ``stream`` wait for what it has under way on the tensor.

    Raises:
        DeviceError: its library does not share the tensor, it lies on another device of the kind,
            has gaps, or starts at an odd address.
    """
    if not hasattr(tensor, "__dlpack_device__"):
        return None
    kind, number = dlpack_device(tensor)
    if kind != device[0]:
        return None
    check_device(backend, number, device[1])
    exported: Any = tensor
    try:
        capsule = exported.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as exc:
        msg = f"{type(tensor).__name__} does not share its memory: {exc}"
        raise DeviceError(msg) from exc
    foreign = ForeignTensor(capsule)
    check_in_place(foreign.form, foreign.address)
    return foreign


def check_device(backend: str, number: int, opened: int) -> None:
    """Raise `DeviceError` for a tensor on another device of a backend than the one opened."""
    if number != opened:
        there, here = f"{backend}:{number}", f"{backend}:{opened}"
        msg = f"tensor lies on {there}, and {here} is open; open {there}"
        raise DeviceError(msg)


def check_in_place(form: TensorForm, address: int) -> None:
    """Raise `DeviceError` for a tensor with gaps, or one that starts at an odd address."""
    described = f"tensor of shape {form.shape} and strides {form.strides}"
    if not form.is_dense:
        msg = f"{described} has gaps; use its contiguous()"
        raise DeviceError(msg)
    if address % _ALIGNMENT:
        msg = f"{described} does not start at a multiple of {_ALIGNMENT} bytes; use its clone()"
        raise DeviceError(msg)


#: The function that libraries call at the end of a tensor of ours: C's ``time``, which writes the
#: time where the tensor has its address. They call at any moment: while an exception is raised,
#: which a function of Python would lose, or when the interpreter is gone. So the call leaves a mark
#: and no more.
_MARK = ctypes.cast(ctypes.CDLL(None).time, c_void_p).value


class _Shared:
    """Memory of ours as a tensor of other libraries."""

    def __init__(
        self, memory: object, address: int, device: tuple[int, int], form: TensorForm
    ) -> None:
        self._memory = memory
        self._address = address
        rank = len(form.shape)
        self._shape = (c_int64 * rank)(*form.shape)
        self._strides = (c_int64 * rank)(*form.strides)
        kind = _DataType(*_CODES[form.dtype], 1)
        place = _Device(*device)
        tensor = _Tensor(address, place, rank, kind, self._shape, self._strides, 0)
        self._managed = _ManagedTensor(tensor, None, _MARK)
        #: None when somebody has taken the tensor out.
        self.capsule: object = _new_capsule(ctypes.addressof(self._managed), _NAME, None)

    def is_released(self) -> bool:
        if self._managed.tensor.data != self._address:
            return True
        if self.capsule is None:
            return False
        if not _is_named(self.capsule, _NAME):
            self.capsule = None
            return False
        return getrefcount(self.capsule) == 2  # ours, and that of the call


_shared: dict[int, _Shared] = {}


def share(memory: object, address: int, device: tuple[int, int], form: TensorForm) -> object:
    """Return a capsule with a tensor. ``memory`` lives until `take_back` finds it unused."""
    take_back()
    shared = _Shared(memory, address, device, form)
    _keep(shared)  # beyond the end of the interpreter, where somebody still holds the tensor
    _shared[id(shared)] = shared
    return shared.capsule


def take_back() -> None:
    """Let go of the memory that no other library uses any more."""
    for key, shared in list(_shared.items()):
        if shared.is_released() and _shared.pop(key, None) is not None:
            _let_go(shared)
