"""Device memory: buffers, the pool that reuses them, and host arrays used in place."""

from __future__ import annotations

import itertools
import os
from collections import deque
from threading import Lock
from typing import Any, Protocol

import numpy as np
import pyopencl as cl

from convfind.errors import DeviceError
from convfind.runtime.backend import TensorForm
from convfind.solver.recipe import WORKSPACE_ALIGNMENT
from convfind_backend_opencl.errors import opencl_errors, translated
from convfind_backend_opencl.target import is_nvidia

#: Host arrays are used in place from this alignment on: kernels may read memory as ``float16``.
HOST_ALIGNMENT = 64

#: Bytes that one command fills at most, and the widest pattern that it repeats.
_FILL = 1 << 30
_PATTERN = 16
_SERIAL = itertools.count(1)


class Block:
    """A piece of OpenCL memory: all of a buffer from ``origin`` on, and the views kernels use."""

    __slots__ = ("_parent", "_views", "memory", "origin", "owner", "serial", "size")

    def __init__(
        self,
        memory: cl.Buffer,
        size: int,
        origin: int = 0,
        parent: cl.Buffer | None = None,
        owner: object = None,
    ) -> None:
        self.memory = memory
        self.size = size
        self.origin = origin
        self.owner = owner  # kept alive with the block
        #: Tells blocks apart without keeping them alive, as an invoker must.
        self.serial = next(_SERIAL)
        # OpenCL has no view of a view: where the memory is one, further ones come from its parent.
        self._parent = parent
        self._views: dict[int, cl.Buffer] = {}

    def view(self, offset: int) -> cl.Buffer:
        """Return a kernel argument that starts at an offset. Raises pyopencl's own errors."""
        start = self.origin + offset
        if start == 0:
            return self.memory
        if start not in self._views:
            self._views[start] = self._new_view(start, self.size - offset)
        return self._views[start]

    def _new_view(self, start: int, size: int) -> cl.Buffer:
        if is_nvidia(self.memory.context.devices[0]):
            # NVIDIA's driver crashes when views that overlap are released. To kernels a view is a
            # pointer there, without an end, so views as small as their alignment do.
            size = min(size, WORKSPACE_ALIGNMENT)
        if self._parent is not None:
            return self._parent.get_sub_region(self.memory.offset + start, size)
        return self.memory.get_sub_region(start, size)

    def overlaps(self, other: Block, size: int, other_size: int) -> bool:
        """Return whether so many bytes from both origins on have one in common."""
        (memory, start), (other_memory, other_start) = self._place(), other._place()
        return (
            memory == other_memory
            and start < other_start + other_size
            and other_start < start + size
        )

    def _place(self) -> tuple[int, int]:
        """OpenCL's object that is no view, and the byte in it at which the block starts."""
        if self._parent is None:
            return self.memory.int_ptr, self.origin
        return self._parent.int_ptr, self.memory.offset + self.origin


class Keeper(Protocol):
    """Takes a block when nobody uses its buffer any more."""

    def give(self, block: Block) -> None:
        """Take a block. Called by finalisers, so at any moment."""


class OpenCLBuffer:
    """Device memory. It goes to its keeper when nobody uses the buffer any more."""

    __slots__ = ("__weakref__", "_keeper", "block", "form", "read_only", "serial", "size")

    def __init__(
        self,
        block: Block,
        size: int,
        keeper: Keeper | None = None,
        *,
        read_only: bool = False,
        form: TensorForm | None = None,
    ) -> None:
        self.block = block
        self.size = size
        self.serial = block.serial
        self.read_only = read_only  # never written from here
        #: How the user's own array lies in it.
        self.form = form
        self._keeper = keeper

    @property
    def native(self) -> cl.Buffer:
        """The pyopencl memory object, valid as long as this buffer is; it starts at `offset`."""
        return self.block.memory

    @property
    def offset(self) -> int:
        """Bytes of `native` before this buffer: not 0 for arrays that start inside another."""
        return self.block.origin

    def __del__(self) -> None:
        # Absent where the constructor did not finish.
        keeper = getattr(self, "_keeper", None)
        if keeper is not None:
            keeper.give(self.block)


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


class BufferPool:
    """Reuses memory by size classes. What lies idle is bounded; the longest idle goes first.

    Memory may return while commands that use it are under way: the queue works in order, so the
    commands of its next user come after them.
    """

    def __init__(self, context: cl.Context, queue: cl.CommandQueue, max_idle: int) -> None:
        self._context = context
        self._queue = queue
        self._max_idle = max_idle
        self._max_size: int = queue.device.max_mem_alloc_size
        self._lock = Lock()
        self._idle: list[Block] = []  # longest idle first
        self._returned: deque[Block] = deque()

    def take(self, size: int) -> Block:
        """Return memory of at least ``size`` bytes with undefined contents."""
        if size > self._max_size:
            # NVIDIA's driver would allocate it, and commands on it would then crash the device.
            msg = (
                f"allocation of {size} bytes is over the device's limit of {self._max_size} bytes; "
                "use a smaller problem or workspace"
            )
            raise DeviceError(msg)
        capacity = min(size_class(size), self._max_size)
        with self._lock:
            self._sort_in()
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index].size == capacity:
                    return self._idle.pop(index)
        return self._allocate(capacity)

    def give(self, block: Block) -> None:
        """Take memory back. Called by finalisers, so at any moment, even inside another method."""
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def clear(self) -> None:
        """Free everything idle."""
        with self._lock:
            self._returned.clear()
            self._idle.clear()

    def close(self) -> None:
        """Free everything idle, and from now on everything that returns."""
        self._max_idle = 0
        self.clear()

    @property
    def idle(self) -> int:
        """Bytes that wait for reuse."""
        with self._lock:
            self._sort_in()
            return sum(block.size for block in self._idle)

    def _sort_in(self) -> None:
        while self._returned:
            self._idle.append(self._returned.popleft())
        excess = sum(block.size for block in self._idle) - self._max_idle
        while excess > 0:
            excess -= self._idle.pop(0).size

    def _allocate(self, size: int) -> Block:
        try:
            return self._create(size)
        except cl.Error:
            self._queue.finish()
            self.clear()
        try:
            return self._create(size)
        except cl.Error as exc:
            total = self._queue.device.global_mem_size
            doing = f"allocation of {size} bytes (limit: {self._max_size}, device memory: {total})"
            raise translated(exc, doing, DeviceError) from exc

    def _create(self, size: int) -> Block:
        memory = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
        if not self._queue.device.host_unified_memory:
            # GPU drivers allocate at the first use; a failure belongs here and not into a launch.
            cl.enqueue_migrate_mem_objects(
                self._queue, [memory], cl.mem_migration_flags.CONTENT_UNDEFINED
            ).wait()
        return Block(memory, size)


def size_class(size: int) -> int:
    """Round up to one of eight steps an octave, 512 bytes at least: at most an eighth is wasted."""
    step = max(512, 1 << max(size.bit_length() - 4, 0))
    return max(-(-size // step), 1) * step


def enqueue_fill(
    queue: cl.CommandQueue, block: Block, byte: int, offset: int, size: int
) -> tuple[cl.Event, cl.Event]:
    """Enqueue the filling of a region that is not empty; return the first and the last event.

    NVIDIA's driver hangs, fills a part only, or writes elsewhere, where offset or size are 2**31
    times the pattern or more. It fills nine times as fast with 16 bytes as with a single one. So a
    pattern of 16 bytes fills as much as it can of the first GiB, and copies of that fill the rest.
    """
    start = block.origin + offset
    width = _PATTERN if start % _PATTERN == 0 and size >= _PATTERN else 1
    if start >= width << 31:
        msg = f"fill at byte {start} of a buffer; possible: below {width << 31}"
        raise DeviceError(msg)
    filled = min(size, _FILL) // width * width
    pattern = bytes([byte]) * width
    first = last = cl.enqueue_fill_buffer(queue, block.memory, pattern, start, filled)
    for done in range(filled, size, filled):
        count = min(filled, size - done)
        last = cl.enqueue_copy(
            queue,
            block.memory,
            block.memory,
            src_offset=start,
            dst_offset=start + done,
            byte_count=count,
        )
    return first, last


def bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a C-contiguous array's memory as bytes: bfloat16 has no buffer protocol of its own."""
    if not array.flags.c_contiguous:
        msg = f"array of shape {array.shape} is not C-contiguous; use numpy.ascontiguousarray"
        raise DeviceError(msg)
    return array.reshape(-1).view(np.uint8)


def is_usable_in_place(array: np.ndarray[Any, Any]) -> bool:
    """True where kernels can work on the array's own memory, on a device that shares it."""
    return array.nbytes > 0 and array.ctypes.data % HOST_ALIGNMENT == 0


def host_block(context: cl.Context, array: np.ndarray[Any, Any], *, writable: bool) -> Block:
    """Return an array's own memory as a block that keeps the array alive."""
    access = cl.mem_flags.READ_WRITE if writable else cl.mem_flags.READ_ONLY
    with opencl_errors(f"use of a host array of {array.nbytes} bytes in place"):
        memory = cl.Buffer(context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=bytes_of(array))
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
