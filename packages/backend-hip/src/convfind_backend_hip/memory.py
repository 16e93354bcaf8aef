"""Device memory: buffers, and the pool that reuses it."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

import numpy as np
from hip import hip

from convfind.errors import DeviceError
from convfind_backend_hip.errors import checked, failure


class Block:
    """A piece of device memory; freed with the last reference where it is convfind's own."""

    __slots__ = ("_free", "address", "owner", "size")

    def __init__(self, address: int, size: int, owner: object = None) -> None:
        self.address = address
        self.size = size
        self.owner = owner  # kept alive with the block; without one the memory is freed here
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._free = hip.hipFree if owner is None else None

    def __del__(self) -> None:
        free = getattr(self, "_free", None)
        if free is not None:
            free(self.address)  # fails after a crash of the device only, which others report


class HipBuffer:
    """Device memory. What came from a pool returns to it when nobody uses the buffer any more."""

    __slots__ = ("__weakref__", "_pool", "address", "block", "size")

    def __init__(self, block: Block, size: int, pool: BufferPool | None = None) -> None:
        self.block = block
        #: Where it starts, as kernels see it.
        self.address = block.address
        self.size = size
        self._pool = pool

    def __del__(self) -> None:
        # Absent where the constructor did not finish.
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.give(self.block)


class BufferPool:
    """Reuses memory by size classes. What lies idle is bounded; the longest idle goes first.

    Memory may return while commands that use it are under way: the stream works in order, so the
    commands of its next user come after them.
    """

    def __init__(self, number: int, total: int, max_idle: int) -> None:
        self._number = number
        self._total = total
        self._max_idle = max_idle
        self._lock = Lock()
        self._idle: list[Block] = []  # longest idle first
        self._returned: deque[Block] = deque()

    def take(self, size: int) -> Block:
        """Return memory of at least ``size`` bytes with undefined contents."""
        capacity = size_class(size)
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
        """Free everything idle. hipFree waits for the device, so nothing of it is in use."""
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
        while excess > 0 and self._idle:
            excess -= self._idle.pop(0).size

    def _allocate(self, size: int) -> Block:
        doing = f"allocation of {size} bytes (device memory: {self._total})"
        checked(hip.hipSetDevice(self._number), "hipSetDevice", doing)
        status, pointer = hip.hipMalloc(size)
        if status:
            self.clear()
            status, pointer = hip.hipMalloc(size)
        if status:
            raise failure(status, "hipMalloc", doing, DeviceError)
        return Block(int(pointer), size)


def size_class(size: int) -> int:
    """Round up to one of eight steps an octave, 512 bytes at least: at most an eighth is wasted."""
    step = max(512, 1 << max(size.bit_length() - 4, 0))
    return max(-(-size // step), 1) * step


def check_contiguous(array: np.ndarray[Any, Any]) -> None:
    """Raise `DeviceError` for an array whose elements do not lie one after the other."""
    if not array.flags.c_contiguous:
        msg = f"array of shape {array.shape} is not C-contiguous; use numpy.ascontiguousarray"
        raise DeviceError(msg)
