"""Memory that is reused by size classes, on the host's memory."""

from __future__ import annotations

import gc

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
    pool.give(pool.take(400 * KIB))
    assert pool.take(800 * KIB).size == 832 * KIB
    with pytest.raises(DeviceError, match="are left"):
        pool.take(800 * KIB)


def test_a_block_up_to_half_as_large_again_is_used() -> None:
    pool = HostPool(total=12 * MIB, max_idle=8 * MIB)
    sizes = (2 * MIB, MIB + MIB // 2, MIB + MIB // 4)
    larger = [pool.take(size) for size in sizes]
    for block in larger:
        pool.give(block)
    assert pool.take(MIB) is larger[2]
    assert pool.take(MIB) is larger[1]
    assert pool.take(MIB).size == MIB
    assert pool.idle == 2 * MIB


def test_a_block_of_the_class_comes_before_a_larger_one_and_the_last_before_others() -> None:
    pool = HostPool(total=8 * MIB, max_idle=8 * MIB)
    blocks = [pool.take(size) for size in (MIB, MIB + MIB // 2, MIB)]
    for block in blocks:
        pool.give(block)
    assert [pool.take(MIB) for _ in blocks] == [blocks[2], blocks[0], blocks[1]]


def test_what_users_of_larger_blocks_leave_unused_counts_as_idle() -> None:
    pool = HostPool(total=9 * MIB, max_idle=3 * MIB)
    first, second = pool.take(3 * MIB), pool.take(3 * MIB)
    pool.give(first)
    assert pool.take(2 * MIB) is first
    pool.give(second)
    assert pool.idle == 0, "a MiB of the first block and three of the second are over three"
    pool.give(first)
    assert pool.idle == 3 * MIB


def test_users_of_larger_blocks_never_leave_more_unused_than_may_be_idle() -> None:
    pool = HostPool(total=24 * MIB, max_idle=4 * MIB)
    taken = []
    for _ in range(3):
        pool.give(pool.take(3 * MIB))
        taken.append(pool.take(2 * MIB).size)
    assert taken == [3 * MIB, 3 * MIB, 2 * MIB]


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


def test_what_is_given_twice_serves_one_user() -> None:
    pool = HostPool(total=MIB, max_idle=MIB)
    block = pool.take(KIB)
    pool.give(block)
    pool.give(block)
    assert pool.idle == block.size
    assert pool.take(KIB) is block
    assert pool.take(KIB) is not block


def test_buffers_in_circles_come_back_whenever_the_collector_finds_them() -> None:
    class Node:
        buffer: KeptBuffer[HostBlock]
        itself: object

    def circle(size: int) -> None:
        node = Node()
        node.buffer, node.itself = KeptBuffer(pool.take(size), 1, pool), node

    pool = HostPool(total=1 << 40, max_idle=1 << 40)
    before = gc.get_threshold()
    gc.set_threshold(50, 10, 10)
    try:
        for _ in range(300):
            for size in (1200, 1000):  # the smaller ones in blocks of the larger ones
                for _ in range(40):
                    circle(size)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert pool.idle == (1 << 40) - pool.total


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
