"""DLPack as other libraries use it: tensors on the stand-in, and a taker of tensors."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_void_p
from typing import Any

from standin_kernels import Array, checked, downloaded, hip, uploaded

ROCM = 10
_TYPES = {"float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16), "int8": (0, 8)}


class Tensor(Structure):
    """DLManagedTensor of DLPack 0.8."""

    _fields_ = (
        ("data", c_void_p),
        ("device", c_int32 * 2),
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, c_void_p)),
    )


def _python(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


class RocmTensor:
    """What PyTorch's tensors on ROCm show of themselves, over the stand-in's memory."""

    def __init__(
        self,
        array: Array,
        *,
        steps: tuple[int, ...] | None = None,
        number: int = 0,
        skipped: int = 0,
    ) -> None:
        self.memory = uploaded(array)
        self.like = array
        #: The streams that were said to wait, and how often a taker was done.
        self.streams: list[int] = []
        self.releases = 0
        self._number = number
        self._shared: dict[int, Tensor] = {}
        self._shape = (c_int64 * array.ndim)(*array.shape)
        self._steps = None if steps is None else (c_int64 * array.ndim)(*steps)
        self._skipped = skipped

    def __dlpack_device__(self) -> tuple[int, int]:
        return ROCM, self._number

    def __dlpack__(self, *, stream: int) -> object:
        self.streams.append(stream)
        tensor = Tensor(
            int(self.memory),
            (c_int32 * 2)(*self.__dlpack_device__()),
            len(self._shape),
            *_TYPES[self.like.dtype.name],
            1,
            self._shape,
            self._steps,
            self._skipped,
            None,
            Tensor._fields_[-1][1](self._release),
        )
        self._shared[ctypes.addressof(tensor)] = tensor
        return _python("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)(
            ctypes.addressof(tensor), b"dltensor", None
        )

    def _release(self, managed: int) -> None:
        assert managed in self._shared
        self.releases += 1

    def numpy(self) -> Array:
        """Copy it to the host."""
        return downloaded(self.memory, self.like)

    def free(self) -> None:
        """Free the memory."""
        checked(hip.hipFree(self.memory))


class Taken:
    """A tensor as another library takes it, by the letter of the protocol."""

    def __init__(self, exporter: Any, **arguments: Any) -> None:
        capsule = exporter.__dlpack__(**arguments)
        address = _python("PyCapsule_GetPointer", c_void_p, ctypes.py_object, c_char_p)
        self.tensor = Tensor.from_address(address(capsule, b"dltensor"))
        _python("PyCapsule_SetName", c_int32, ctypes.py_object, c_char_p)(capsule, _USED)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape[: self.tensor.rank])

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.tensor.strides[: self.tensor.rank])

    def release(self) -> None:
        """Be done with it."""
        self.tensor.deleter(ctypes.addressof(self.tensor))


_USED = b"used_dltensor"
