"""Memory at addresses, shared with NumPy through DLPack: the host stands for a device."""

from __future__ import annotations

import ctypes
import gc
from collections import deque
from typing import Any

import numpy as np
import pytest

from convfind.backend_kit import dlpack
from convfind.backend_kit.addressed import AddressBlock, AddressBuffer, AddressPool
from convfind.backend_kit.borrowed import Borrowed
from convfind.errors import DeviceError
from convfind.runtime.backend import TensorForm
from convfind.runtime.tensors import DeviceTensor
from convfind.types import DataType

HOST = (1, 0)  # DLPack's number of the CPU


class HostPool(AddressPool):
    """Memory of the host. Stream 7 is its own, and 8 is another."""

    def __init__(self) -> None:
        super().__init__(HOST, stream=7, max_idle=1 << 20)
        self.held_back: list[int] = []
        self.freed: list[int] = []

    def create(self, size: int) -> AddressBlock:
        memory = ctypes.create_string_buffer(size)
        return AddressBlock(ctypes.addressof(memory), size, memory, self.freed.append)

    def reader(self, stream: int | None) -> int | None:
        if stream == 0:
            raise BufferError("stream 0: which one?")
        return None if stream == -1 else stream or self.stream

    def hold_back(self, stream: int) -> None:
        self.held_back.append(stream)


def buffer_of(pool: HostPool, size: int) -> AddressBuffer:
    return AddressBuffer(pool.take(size), size, pool)


def test_another_library_uses_the_memory_in_place() -> None:
    pool = HostPool()
    buffer = buffer_of(pool, 24)
    elements = (ctypes.c_float * 6).from_address(buffer.address)
    shared: Any = DeviceTensor(buffer, (2, 3), DataType.FLOAT32)
    array = np.from_dlpack(shared)
    elements[:] = [1, 2, 3, 4, 5, 6]
    assert array.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_memory_that_the_collector_finds_in_a_circle_is_freed_once() -> None:
    class Holder:
        """Somebody who holds a buffer, and so himself."""

    pool = HostPool()
    holder: Any = Holder()
    holder.itself, holder.buffer = holder, buffer_of(pool, 1000)
    address = holder.buffer.address
    del holder
    gc.collect()
    assert pool.freed == []
    again = buffer_of(pool, 1000)
    assert again.address == address
    del again
    pool.clear()
    assert pool.freed == [address]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_pool_does_not_hold_what_came_back(is_shared: bool) -> None:
    pool = HostPool()
    buffer = buffer_of(pool, 1000)
    address, buffer.block.is_shared = buffer.address, is_shared
    del buffer
    pool.clear()
    assert pool.freed == [address]


@pytest.mark.parametrize(("stream", "held_back"), [(None, []), (7, []), (8, [8]), (-1, [])])
def test_memory_that_other_streams_read_is_not_reused(
    stream: int | None, held_back: list[int]
) -> None:
    pool = HostPool()
    buffer = buffer_of(pool, 64)
    address = buffer.address
    capsule = buffer.dlpack(TensorForm((16,), (1,), "float32"), stream)
    assert pool.held_back == held_back
    del buffer, capsule
    dlpack.take_back()
    is_shared = stream in (8, -1)
    assert (pool.freed == [address]) is is_shared
    assert (pool.idle == 0) is is_shared


def test_memory_returns_only_when_its_reader_has_released_it() -> None:
    pool = HostPool()
    shared: Any = DeviceTensor(buffer_of(pool, 64), (16,), DataType.FLOAT32)
    array = np.from_dlpack(shared)
    del shared
    dlpack.take_back()
    gc.collect()
    assert pool.idle == 0
    del array
    dlpack.take_back()
    assert pool.idle == 512


def test_a_stream_that_is_none_is_refused() -> None:
    with pytest.raises(BufferError, match="which one"):
        buffer_of(HostPool(), 64).dlpack(TensorForm((16,), (1,), "float32"), 0)
    foreign = AddressBuffer(AddressBlock(64, 64, object()), 64)
    with pytest.raises(BufferError, match="memory of another library"):
        foreign.dlpack_device()


class Tensor:
    """An array whose library orders the streams that it is told."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST

    def __dlpack__(self, *, stream: int) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__()


def aligned(count: int) -> Any:
    raw = np.arange(count + 16, dtype=np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count]


def test_tensors_of_other_libraries_come_with_address_and_form() -> None:
    array = aligned(24).reshape(4, 6).T
    tensor = Tensor(array)
    foreign = dlpack.foreign_tensor(tensor, "host", HOST, 7)
    assert foreign is not None
    assert tensor.streams == [7]
    assert (foreign.address, foreign.size) == (array.ctypes.data, 96)
    assert foreign.form == TensorForm((6, 4), (1, 6), "float32")
    assert dlpack.foreign_tensor(tensor, "host", (dlpack.CUDA, 0), 7) is None
    assert dlpack.foreign_tensor(object(), "host", HOST, 7) is None


@pytest.mark.parametrize(
    ("array", "number", "words"),
    [
        (aligned(24)[::2], 0, "has gaps; use its contiguous"),
        (aligned(24)[1:], 0, "multiple of 16 bytes; use its clone"),
        (aligned(24), 1, "lies on host:0, and host:1 is open; open host:0"),
    ],
)
def test_tensors_that_kernels_cannot_use_are_refused(array: Any, number: int, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        dlpack.foreign_tensor(Tensor(array), "host", (HOST[0], number), 7)


def test_borrowed_memory_goes_back_when_the_stream_is_past_it() -> None:
    passed: deque[bool] = deque()

    class Event:
        def record(self, stream: int) -> None:
            assert stream == 7

        def has_passed(self) -> bool:
            return passed.popleft()

        def wait(self) -> None:
            """Return at once."""

    owners = [Tensor(None), Tensor(None)]
    released: list[int] = []
    borrowed = Borrowed(7, Event)
    for number, owner in enumerate(owners):
        buffer = AddressBuffer(AddressBlock(64, 64, owner, released.append), 64, borrowed)
        del buffer
        assert len(released) == 0, f"tensor {number} goes back too early"
    passed.extend([True, False])
    borrowed.sweep()
    assert len(released) == 1
    borrowed.close()
    assert len(released) == 2
