"""Memory of the host as blocks, and the pool of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind.backend_kit.memory import Block, KeptBuffer
from convfind.backend_kit.pool import BufferPool
from convfind.errors import DeviceError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class HostBlock(Block):
    """Bytes of the host: a pool's, or those of a caller's array."""

    __slots__ = ("data",)

    def __init__(self, data: Bytes) -> None:
        super().__init__(data.size)
        self.data = data

    def place(self) -> tuple[int, int]:
        """Return the address."""
        return 0, self.data.ctypes.data


class NumpyBuffer(KeptBuffer[HostBlock]):
    """Memory of the device."""

    __slots__ = ()


class HostPool(BufferPool[HostBlock]):
    """Memory by NumPy."""

    def create(self, size: int) -> HostBlock:
        """Allocate."""
        try:
            return HostBlock(np.empty(size, np.uint8))
        except MemoryError as exc:
            msg = f"allocation of {size} bytes failed; free memory or use a smaller problem"
            raise DeviceError(msg) from exc
