"""Device memory: buffers, the pool that reuses them, and host arrays used in place."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pyopencl as cl

from convfind.errors import DeviceError
from convfind_backend_opencl.errors import opencl_errors, translated

#: Host arrays are used in place from this alignment on: kernels may read memory as ``float16``.
HOST_ALIGNMENT = 64

#: Bytes that one command fills at most.
_FILL = 1 << 30
_SERIAL = itertools.count(1)


class Block:
    """A piece of OpenCL memory, and the views into it that kernels have asked for."""

    __slots__ = ("_origin", "_parent", "_views", "memory", "owner", "serial", "size")

    def __init__(
        self,
        memory: cl.Buffer,
        size: int,
        parent: cl.Buffer | None = None,
        origin: int = 0,
        owner: object = None,
    ) -> None:
        self.memory = memory
        self.size = size
        self.owner = owner  # kept alive with the block
        #: Tells blocks apart without keeping them alive, as an invoker must.
        self.serial = next(_SERIAL)
        # OpenCL has no view of a view, so views of a view are taken from its parent.
        self._parent = parent
        self._origin = origin
        self._views: dict[int, cl.Buffer] = {}

    def view(self, offset: int) -> cl.Buffer:
        """Return the memory from an offset to the end. Raises pyopencl's own errors."""
        if offset == 0:
            return self.memory
        if offset not in self._views:
            parent = self._parent or self.memory
            self._views[offset] = parent.get_sub_region(self._origin + offset, self.size - offset)
        return self._views[offset]

    def part(self, offset: int) -> Block:
        """Return the memory from an offset to the end as a block."""
        view, origin = self.view(offset), self._origin + offset
        return Block(view, self.size - offset, self._parent or self.memory, origin, self.owner)


class OpenCLBuffer:
    """Device memory. What came from a pool returns to it when nobody uses the buffer any more."""

    __slots__ = ("__weakref__", "_pool", "block", "read_only", "serial", "size")

    def __init__(
        self, block: Block, size: int, pool: BufferPool | None = None, *, read_only: bool = False
    ) -> None:
        self.block = block
        self.size = size
        self.serial = block.serial
        self.read_only = read_only  # the caller's own array: never written from here
        self._pool = pool

    @property
    def native(self) -> cl.Buffer:
        """The pyopencl memory object, valid as long as this buffer is."""
        return self.block.memory

    def __del__(self) -> None:
        # Absent where the constructor did not finish.
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.give(self.block)


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


@dataclass(frozen=True, slots=True)
class FillPiece:
    """One fill command: a pattern repeated over ``size`` bytes from ``base`` + ``offset`` on."""

    pattern: bytes
    base: int
    offset: int
    size: int

    def enqueue(self, queue: cl.CommandQueue, block: Block) -> cl.Event:
        """Enqueue the command."""
        view = block.view(self.base)
        return cl.enqueue_fill_buffer(queue, view, self.pattern, self.offset, self.size)


def fill_pieces(byte: int, offset: int, size: int) -> list[FillPiece]:
    """Split the filling of a region with a byte into commands.

    NVIDIA's driver hangs, fills a part only, or writes elsewhere, where offset or size are 2**31
    times the pattern or more. The widest pattern that fits also fills up to nine times as fast
    there as a single byte.
    """
    width = next(width for width in (16, 4, 1) if (offset | size) % width == 0)
    pattern, end = bytes([byte]) * width, offset + size
    return [
        FillPiece(pattern, start - start % _FILL, start % _FILL, min(_FILL, end - start))
        for start in range(offset, end, _FILL)
    ]


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
        cl.enqueue_fill_buffer(queue, block.memory, b"\1", 0, array.nbytes)
        queue.finish()
    except (cl.Error, DeviceError):
        return False
    return bool(array.all())
