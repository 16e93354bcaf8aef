"""`BufferPool`: device memory that is reused by size classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from threading import Lock
from typing import Generic

from convfind.backend_kit.memory import BlockT
from convfind.device.target import Target
from convfind.errors import DeviceError

#: Memory that waits for reuse is at most this part of the device's.
_IDLE_SHARE = 8
#: An idle block of up to so many times the size serves where none of the class is idle: fresh pages
#: cost a CPU's system three times what it takes to fill them.
_LARGER = 1.5


class BufferPool(ABC, Generic[BlockT]):
    """Reuses memory by size classes, and blocks up to half as large again.

    The larger ones serve where none of the class is idle. Bytes that are idle, and those that their
    users leave unused, are bounded; the longest idle go first.
    Memory may return while commands that use it are under way: the queue works in order, so the
    commands of its next user come after them.
    """

    def __init__(self, max_idle: int, largest: int | None = None) -> None:
        """Make an empty pool that keeps ``max_idle`` bytes, of blocks up to ``largest`` bytes."""
        self._max_idle = max_idle
        self._largest = largest
        self._lock = Lock()
        self._idle: list[BlockT] = []  # longest idle first
        self._returned: deque[BlockT] = deque()
        # By serial, and held: where the collector finds a buffer in a circle, it finalises all that
        # only the circle holds, and so would free the very memory that the buffer gives back.
        self._used: dict[int, BlockT] = {}
        self._spare: dict[int, int] = {}  # bytes that users of larger blocks leave unused

    @abstractmethod
    def create(self, size: int) -> BlockT:
        """Allocate. Raises `DeviceError` with the size and the device's memory."""

    def drain(self) -> None:
        """Free everything idle before an allocation is tried again, once nothing uses it."""
        self.clear()

    def take(self, size: int) -> BlockT:
        """Return memory of at least ``size`` bytes with undefined contents."""
        block = self._found(size)
        self._used[block.serial] = block
        return block

    def _found(self, size: int) -> BlockT:
        capacity = size_class(size)
        if self._largest is not None:
            if size > self._largest:
                msg = (
                    f"allocation of {size} bytes is over the device's limit of {self._largest} "
                    "bytes; use a smaller problem or workspace"
                )
                raise DeviceError(msg)
            capacity = min(capacity, self._largest)
        with self._lock:
            self._sort_in()
            block = self._idle_block(capacity)
        if block is not None:
            return block
        try:
            return self.create(capacity)
        except DeviceError:
            self.drain()
        return self.create(capacity)

    def _idle_block(self, capacity: int) -> BlockT | None:
        """Take an idle block of a class, or the smallest larger one; the one used last of those."""
        best = None
        for place in range(len(self._idle) - 1, -1, -1):
            size = self._idle[place].size
            if size == capacity:
                return self._idle.pop(place)
            limit = _LARGER * capacity if best is None else self._idle[best].size - 1
            if capacity < size <= limit:
                best = place
        if best is None:
            return None
        spare = self._idle[best].size - capacity
        if self._spared + spare > self._max_idle:
            return None
        block = self._idle.pop(best)
        self._spare[block.serial] = spare
        return block

    @property
    def _spared(self) -> int:
        # A copy: a collection on the way may give buffers back, and so change the dictionary.
        return sum(self._spare.copy().values())

    def give(self, block: BlockT) -> None:
        """Take memory back. Called by finalisers, so at any moment, even inside another method.

        What is not in use is not taken back again.
        """
        if not self.forget(block):
            return
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def forget(self, block: BlockT) -> bool:
        """Let memory that was taken go its own way; return whether it was in use."""
        self._spare.pop(block.serial, None)
        return self._used.pop(block.serial, None) is not None

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
        excess = sum(block.size for block in self._idle) + self._spared - self._max_idle
        while excess > 0 and self._idle:
            excess -= self._idle.pop(0).size


def most_idle(target: Target) -> int:
    """Return the bytes of a device's memory that may wait for reuse."""
    return target.global_memory // _IDLE_SHARE


def size_class(size: int) -> int:
    """Round up to one of eight steps an octave, 512 bytes at least: at most an eighth is wasted."""
    step = max(512, 1 << max(size.bit_length() - 4, 0))
    return max(-(-size // step), 1) * step
