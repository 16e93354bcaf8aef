"""Device memory: buffers, and the pool that reuses it."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any, Protocol

import numpy as np
from hip import hip

from convfind.errors import DeviceError
from convfind.runtime.backend import TensorForm
from convfind_backend_hip import dlpack
from convfind_backend_hip.errors import checked, failure
from convfind_backend_hip.stream import Event

#: What others may pass for a stream: they wait themselves, and the names of the default stream.
_NO_STREAM = -1
_DEFAULT_STREAM = 0
_NOT_OF_ROCM = (1, 2)


class Block:
    """A piece of device memory; freed with the last reference where it is convfind's own."""

    __slots__ = ("_free", "address", "is_shared", "owner", "size")

    def __init__(self, address: int, size: int, owner: object = None) -> None:
        self.address = address
        self.size = size
        self.owner = owner  # kept alive with the block; without one the memory is freed here
        self.is_shared = False  # with other streams, so that no pool may reuse it
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._free = hip.hipFree if owner is None else None

    def __del__(self) -> None:
        free = getattr(self, "_free", None)
        if free is not None:
            free(self.address)  # fails after a crash of the device only, which others report


class Keeper(Protocol):
    """Who takes a block when nobody uses its buffer any more."""

    def give(self, block: Block) -> None:
        """Take a block back. Called by finalisers, so at any moment."""


class HipBuffer:
    """Device memory, from a pool or of another library; goes back there with the last reference."""

    __slots__ = ("__weakref__", "_keeper", "address", "block", "form", "size")

    def __init__(
        self, block: Block, size: int, keeper: Keeper | None = None, form: TensorForm | None = None
    ) -> None:
        self.block = block
        #: Where it starts, as kernels see it.
        self.address = block.address
        self.size = size
        #: What another library says of it.
        self.form = form
        self._keeper = keeper

    def __del__(self) -> None:
        # Absent where the constructor did not finish.
        keeper = getattr(self, "_keeper", None)
        if keeper is not None:
            keeper.give(self.block)

    def dlpack_device(self) -> tuple[int, int]:
        """Return DLPack's number of ROCm, and that of the device."""
        return dlpack.ROCM, self._pool().number

    def dlpack(self, form: TensorForm, stream: int | None) -> object:
        """Return a capsule that shares the memory as a tensor.

        ``stream`` waits for what is under way here; None means the default one, -1 none. Raises
        `BufferError` for a stream that ROCm does not have.
        """
        pool = self._pool()
        reader = _DEFAULT_STREAM if stream is None else stream
        if reader in _NOT_OF_ROCM or reader < _NO_STREAM:
            msg = f"stream {stream}: not one of ROCm's; pass 0, -1 or a stream's address"
            raise BufferError(msg)
        if reader != pool.stream:
            if reader != _NO_STREAM:
                pool.hold_back(reader)
            # The reader may be at it when the buffer goes: hipFree waits for all streams.
            self.block.is_shared = True
        return dlpack.share(self, self.address, pool.number, form)

    def _pool(self) -> BufferPool:
        if not isinstance(self._keeper, BufferPool):
            msg = "memory of another library; share that library's own tensor"
            raise BufferError(msg)
        return self._keeper


class BufferPool:
    """Reuses memory by size classes. What lies idle is bounded; the longest idle goes first.

    Memory may return while commands that use it are under way: the stream works in order, so the
    commands of its next user come after them.
    """

    def __init__(self, number: int, stream: int, total: int, max_idle: int) -> None:
        self.number = number
        self.stream = stream
        self._total = total
        self._max_idle = max_idle
        self._lock = Lock()
        self._idle: list[Block] = []  # longest idle first
        self._returned: deque[Block] = deque()

    def take(self, size: int) -> Block:
        """Return memory of at least ``size`` bytes with undefined contents."""
        capacity = size_class(size)
        dlpack.take_back()
        with self._lock:
            self._sort_in()
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index].size == capacity:
                    return self._idle.pop(index)
        return self._allocate(capacity)

    def give(self, block: Block) -> None:
        """Take memory back. Called by finalisers, so at any moment, even inside another method."""
        if block.is_shared:
            return
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def clear(self) -> None:
        """Free everything idle. hipFree waits for the device, so nothing of it is in use."""
        dlpack.take_back()
        with self._lock:
            self._returned.clear()
            self._idle.clear()

    def close(self) -> None:
        """Free everything idle, and from now on everything that returns."""
        self._max_idle = 0
        self.clear()

    def hold_back(self, stream: int) -> None:
        """Let another stream wait for what is under way."""
        checked(hip.hipSetDevice(self.number), "hipSetDevice", "sharing a tensor")
        reached = Event()
        reached.record(self.stream)
        reached.hold_back(stream)

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
        checked(hip.hipSetDevice(self.number), "hipSetDevice", doing)
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
