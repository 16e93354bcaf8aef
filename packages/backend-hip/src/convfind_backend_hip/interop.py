"""Other libraries' ROCm tensors through DLPack, used without a copy."""

from __future__ import annotations

from collections import deque
from typing import Any

from convfind.errors import DeviceError, LaunchError
from convfind.runtime.tensors import dlpack_device
from convfind_backend_hip import dlpack
from convfind_backend_hip.memory import Block, HipBuffer
from convfind_backend_hip.stream import Event

#: Bytes at whose multiples kernels may expect a tensor to start.
_ALIGNMENT = 16


class Borrowed:
    """Memory of other libraries, given back when the stream is past the commands that use it.

    Until then they may not hand it to work on streams of their own. On a stream of the caller's the
    caller's library orders that itself, and gets the memory back at once.
    """

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._returning: deque[tuple[Event, Block]] = deque()
        self._is_open = True

    def give(self, block: Block) -> None:
        """Note a block that nobody here uses any more. Called by finalisers, so at any moment."""
        if not self._is_open:
            return
        try:
            last = Event()
            last.record(self._stream)
        except (DeviceError, LaunchError):
            return  # nothing runs on a broken device
        self._returning.append((last, block))

    def sweep(self) -> None:
        """Give back what the stream is past."""
        while self._returning:
            last, block = self._returning.popleft()
            if not last.has_passed():
                self._returning.appendleft((last, block))
                return

    def close(self) -> None:
        """Give back everything, now and from now on; the stream is idle."""
        self._is_open = False
        self._returning.clear()

    def __del__(self) -> None:
        # The device was dropped without being closed.
        for last, _ in getattr(self, "_returning", ()):
            last.wait()


def adopt(tensor: object, number: int, stream: int, borrowed: Borrowed | None) -> HipBuffer | None:
    """Return the memory of a ROCm tensor, None for anything else.

    The tensor's library makes ``stream`` wait for what it has under way on the tensor. ``borrowed``
    is for a stream that the library does not know; without it tensors are given back at once.
    Raises `DeviceError` for a tensor that its library does not share, that lies on another device,
    has gaps, or starts at an odd address.
    """
    if isinstance(tensor, HipBuffer):
        return tensor
    if not hasattr(tensor, "__dlpack_device__"):
        return None
    kind, place = dlpack_device(tensor)
    if kind != dlpack.ROCM:
        return None
    if place != number:
        msg = f"tensor lies on hip:{place}, and hip:{number} is open; open hip:{place}"
        raise DeviceError(msg)
    if borrowed is not None:
        borrowed.sweep()
    exported: Any = tensor
    try:
        capsule = exported.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as exc:
        msg = f"{type(tensor).__name__} does not share its memory: {exc}"
        raise DeviceError(msg) from exc
    foreign = dlpack.ForeignTensor(capsule)
    form = foreign.form
    described = f"tensor of shape {form.shape} and strides {form.strides}"
    if not form.is_dense:
        msg = f"{described} has gaps; use its contiguous()"
        raise DeviceError(msg)
    if foreign.address % _ALIGNMENT:
        msg = f"{described} does not start at a multiple of {_ALIGNMENT} bytes; use its clone()"
        raise DeviceError(msg)
    return HipBuffer(Block(foreign.address, foreign.size, foreign), foreign.size, borrowed, form)
