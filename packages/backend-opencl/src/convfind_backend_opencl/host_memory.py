"""Arrays of the host's that kernels use in place."""

from __future__ import annotations

import os
from collections import deque
from typing import Any

import numpy as np
import pyopencl as cl

from convfind.backend_kit import memory as kit
from convfind.backend_kit.memory import bytes_of
from convfind.errors import DeviceError
from convfind_backend_opencl.errors import translated
from convfind_backend_opencl.memory import Block, enqueue_fill

#: Host arrays are used in place from this alignment on: kernels may read memory as ``float16``.
HOST_ALIGNMENT = 64

#: How kernels use host arrays: values, as each call needs one.
_READ = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
_WRITTEN = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR


class HostBlock(Block):
    """An array of the host's, which kernels get as a plain pointer.

    CPU runtimes take ten times as long over the first use of a buffer as over a pointer, and
    results mostly lie where none lay before. Whatever else needs a buffer gets one, a writable one
    for inputs too: Intel's runtime copies arrays under buffers that are only read, unless they
    start at multiples of 128 bytes, and the copy would not follow what kernels see.
    """

    __slots__ = ("_array", "_context", "_made")

    def __init__(self, context: cl.Context, array: np.ndarray[Any, Any]) -> None:
        kit.Block.__init__(self, array.nbytes, array)
        self.origin, self._parent = 0, None
        self._context, self._array = context, bytes_of(array)
        self._made: cl.Buffer | None = None

    @property
    def memory(self) -> cl.Buffer:  # type: ignore[override]
        """A buffer on the array. Raises pyopencl's own errors."""
        if self._made is None:
            self._made = cl.Buffer(self._context, _WRITTEN, hostbuf=self._array)
        return self._made

    def view(self, offset: int) -> Any:
        """Return a kernel argument that starts at an offset."""
        return cl.SVM(self._array[offset:] if offset else self._array)


class HostMemory:
    """Keeps host memory that kernels use in place until the queue is past them.

    OpenCL keeps its own memory until then, but neither the array under a buffer nor what a pool of
    the user's may hand out again.
    """

    __slots__ = ("_kept", "_most", "_process", "_queue", "is_idle")

    def __init__(self, queue: cl.CommandQueue, most: int) -> None:
        self._queue = queue
        self._process = os.getpid()
        self._most = most
        self._kept: deque[Block] = deque()
        #: False while something that was enqueued may be under way.
        self.is_idle = True

    def give(self, block: Block) -> None:
        """Keep a block as long as something is under way. Called by finalisers."""
        if not self.is_idle:
            self._kept.append(block)

    def passed(self) -> None:
        """Let go of everything: all that was enqueued has finished."""
        self.is_idle = True
        self._kept.clear()

    def make_room(self) -> None:
        """Wait for the queue where more than the limit is kept."""
        if self._kept and self.kept > self._most:
            self._queue.finish()
            self.passed()

    @property
    def kept(self) -> int:
        """Bytes that nobody but the device uses."""
        return sum(block.size for block in tuple(self._kept))

    def __del__(self) -> None:
        # The device was dropped without being closed.
        if getattr(self, "_kept", None) and self._process == os.getpid():
            self._queue.finish()


def is_usable_in_place(array: np.ndarray[Any, Any]) -> bool:
    """True where kernels can work on the array's own memory, on a device that shares it."""
    # `array.ctypes.data` takes three times as long.
    address: int = array.__array_interface__["data"][0]
    return array.nbytes > 0 and address % HOST_ALIGNMENT == 0


def host_block(
    context: cl.Context, array: np.ndarray[Any, Any], *, writable: bool, by_pointer: bool = False
) -> Block:
    """Return an array's own memory as a block that keeps the array alive.

    ``by_pointer`` where `takes_host_pointers` says that kernels may get it so; arrays that must not
    be written are no such pointers to pyopencl.
    """
    if by_pointer and array.flags.writeable:
        return HostBlock(context, array)
    flags = _WRITTEN if writable else _READ
    try:
        memory = cl.Buffer(context, flags, hostbuf=bytes_of(array))
    except cl.Error as exc:
        doing = f"use of a host array of {array.nbytes} bytes in place"
        raise translated(exc, doing, DeviceError) from exc
    return Block(memory, array.nbytes, owner=array)


def shares_host_memory(context: cl.Context, queue: cl.CommandQueue) -> bool:
    """Try it: write through a buffer on a host array and look at the array.

    ``CL_DEVICE_HOST_UNIFIED_MEMORY`` does not promise it, and a copy would go unnoticed.
    """
    raw = np.zeros(4096 + HOST_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % HOST_ALIGNMENT
    array = raw[start : start + 4096]
    try:
        block = host_block(context, array, writable=True)
        enqueue_fill(queue, block, 1, 0, array.nbytes)
        queue.finish()
    except (cl.Error, DeviceError):
        return False
    return bool(array.all())
