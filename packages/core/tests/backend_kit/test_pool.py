"""Memory that is reused by size classes, on the host's memory."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.backend_kit.memory import Block, KeptBuffer, overlap
from convfind.backend_kit.pool import BufferPool, size_class
from convfind.errors import DeviceError

KIB = 1 << 10
MIB = 1 << 20


class HostBlock(Block):
    """Memory of the host, from ``start`` on."""

    def __init__(self, size: int, memory: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        super().__init__(size)
        self.memory = memory

    def place(self) -> tuple[int, int]:
        return 0, self.memory.ctypes.data


class HostPool(BufferPool[HostBlock]):
    """A device that has as many bytes as it is told, in use or idle."""

    def __init__(self, total: int, max_idle: int, largest: int | None = None) -> None:
        super().__init__(max_idle, largest)
        self.total = total

    def create(self, size: int) -> HostBlock:
        if size > self.total:
            raise DeviceError(f"allocation of {size} bytes: {self.total} are left")
        self.total -= size
        return HostBlock(size, np.empty(size, np.uint8))

    def drain(self) -> None:
        self.total += self.idle
        self.clear()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 4096, 100_000, 3 * MIB + 1, 5 << 30])
def test_a_size_class_wastes_an_eighth_at_most(size: int) -> None:
    capacity = size_class(size)
    assert capacity >= max(size, 512)
    assert capacity % 512 == 0
    assert capacity - size <= max(512, size // 8)
    assert size_class(capacity) == capacity


def test_memory_that_lies_idle_is_freed_before_an_allocation_fails() -> None:
    pool = HostPool(total=MIB, max_idle=MIB)
    pool.give(pool.take(900 * KIB))
    assert pool.take(800 * KIB).size == 832 * KIB
    with pytest.raises(DeviceError, match="are left"):
        pool.take(800 * KIB)


def test_no_block_is_larger_than_the_device_allows() -> None:
    pool = HostPool(total=MIB, max_idle=0, largest=1000)
    assert pool.take(900).size == 1000
    with pytest.raises(DeviceError, match="1001 bytes is over the device's limit of 1000 bytes"):
        pool.take(1001)


def test_a_buffer_returns_its_block_when_nobody_uses_it() -> None:
    pool = HostPool(total=MIB, max_idle=MIB)
    block = pool.take(KIB)
    buffer = KeptBuffer(block, KIB, pool)
    assert buffer.serial == block.serial
    assert pool.idle == 0
    del buffer
    assert pool.take(KIB) is block


def test_buffers_overlap_where_they_share_a_byte() -> None:
    memory = np.empty(64, np.uint8)
    first, second, third, nothing = (
        KeptBuffer(HostBlock(end - start, memory[start:end]), end - start)
        for start, end in ((0, 32), (31, 40), (32, 64), (8, 8))
    )
    assert overlap(first, first)
    assert overlap(first, second)
    assert overlap(second, first)
    assert not overlap(first, third)
    assert not overlap(first, nothing)
