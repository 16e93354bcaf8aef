"""Buffers, their reuse, and host arrays used in place."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pyopencl as cl
import pytest
from numpy.typing import NDArray
from opencl_testing import Runner

from convfind.checking.tensor_set import has_contents
from convfind.device.target import DeviceKind
from convfind.errors import DeviceError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import BufferArg, Fill, Memory, f32
from convfind_backend_opencl import memory
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.host_memory import HOST_ALIGNMENT
from convfind_backend_opencl.memory import OpenCLBuffer, OpenCLPool

X = BufferArg(Memory.X)

MIB = 1 << 20


def aligned(count: int) -> NDArray[np.float32]:
    raw = np.zeros(count * 4 + HOST_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % HOST_ALIGNMENT
    return raw[start : start + count * 4].view(np.float32)


def shares_host_memory(device: OpenCLDevice) -> bool:
    return device.wrap_output(aligned(16)) is not None


def test_memory_is_reused(device: OpenCLDevice) -> None:
    first = device.allocate(MIB)
    serial = first.serial
    del first
    second = device.allocate(MIB - 100)
    third = device.allocate(MIB)
    assert second.serial == serial
    assert second.size == MIB - 100
    assert third.serial != serial


def test_reading_begins_where_it_is_told(device: OpenCLDevice) -> None:
    buffer = device.upload(np.arange(64, dtype=np.uint8))
    seen = np.empty(4, np.uint8)
    device.read(buffer, seen, offset=60)
    assert seen.tolist() == [60, 61, 62, 63]
    with pytest.raises(DeviceError, match="65 bytes does not fit a buffer of 64 bytes"):
        device.read(buffer, seen, offset=61)


def test_a_part_is_a_piece_of_a_buffer_that_it_keeps(device: OpenCLDevice) -> None:
    whole = device.upload(np.zeros(MIB, np.uint8))
    if device.target.kind is not DeviceKind.CPU:
        with pytest.raises(DeviceError, match="not possible"):
            device.part(whole, 0, 128)
        return
    part, behind = device.part(whole, 256, 512), device.part(whole, 768, 100)
    device.fill(part, 7)
    seen = np.empty(MIB, np.uint8)
    device.read(whole, seen)
    assert (seen.nonzero()[0] == np.arange(256, 768)).all()
    assert device.overlap(whole, part)
    assert not device.overlap(part, behind)
    del whole, behind
    gc.collect()
    device.fill(device.allocate(MIB), 9)
    assert has_contents(device, part, np.full(512, 7, np.uint8)), "others have the memory"


def test_parts_lie_inside_and_begin_where_views_do(device: OpenCLDevice) -> None:
    if device.target.kind is not DeviceKind.CPU:
        pytest.skip("buffers of CPUs have parts")
    whole = device.allocate(1024)
    with pytest.raises(DeviceError, match="1100 bytes does not fit a buffer of 1024 bytes"):
        device.part(device.part(whole, 0, 1024), 1000, 100)
    with pytest.raises(DeviceError, match="from byte 4 on is not possible"):
        device.part(whole, 4, 100)
    inner = device.part(device.part(whole, 512, 512), 256, 128)
    device.fill(whole, 0)
    device.fill(inner, 5)
    seen = np.empty(1024, np.uint8)
    device.read(whole, seen)
    assert (seen.nonzero()[0] == np.arange(768, 896)).all()


def test_a_kernel_sees_a_part_as_its_memory(device: OpenCLDevice, runner: Runner) -> None:
    if device.target.kind is not DeviceKind.CPU:
        pytest.skip("buffers of CPUs have parts")
    numbers = np.arange(1024, dtype=np.float32)
    whole = device.upload(numbers)
    part = device.part(whole, 1024, 1024)
    runner.run(InvokeArgs(x=part), Fill(Memory.X, 128, 64))
    numbers[(1024 + 128) // 4 : (1024 + 192) // 4] = 0
    assert has_contents(device, whole, numbers)


def test_idle_memory_is_bounded_and_the_longest_idle_goes_first(device: OpenCLDevice) -> None:
    pool = OpenCLPool(device.context, device.queue, max_idle=3 * MIB)
    blocks = [pool.take(MIB) for _ in range(5)]
    for block in blocks:
        pool.give(block)
    assert pool.idle == 3 * MIB
    assert pool.take(MIB) is blocks[4]
    assert {pool.take(MIB), pool.take(MIB)} == {blocks[2], blocks[3]}
    assert pool.idle == 0


def test_a_small_request_leaves_large_memory_alone(device: OpenCLDevice) -> None:
    pool = OpenCLPool(device.context, device.queue, max_idle=4 * MIB)
    pool.give(pool.take(2 * MIB))
    assert pool.take(MIB).size == MIB
    assert pool.idle == 2 * MIB


def test_a_closed_pool_keeps_nothing(device: OpenCLDevice) -> None:
    pool = OpenCLPool(device.context, device.queue, max_idle=MIB)
    block = pool.take(4096)
    pool.close()
    pool.give(block)
    assert pool.idle == 0


def test_a_cpus_memory_is_seen_in_place_after_all_that_was_enqueued(device: OpenCLDevice) -> None:
    if device.target.kind is not DeviceKind.CPU:
        pytest.skip("not a CPU")
    buffer = device.upload(np.arange(64, dtype=np.uint8))
    seen = device.seen(buffer)
    assert seen is not None
    with seen as memory:
        assert np.array_equal(memory, np.arange(64))
    other = device.allocate(3 * MIB)
    device.fill(other, 7)
    again = device.seen(other)
    assert again is not None
    with again as memory:
        assert (memory.size, memory.min(), memory.max()) == (3 * MIB, 7, 7)
    device.fill(other, 8)
    later = device.seen(other)
    assert later is not None
    with later as memory:
        assert memory.min() == 8


@pytest.mark.parametrize("place", [0, 1 << 21, (5 << 20) + 3])
def test_a_byte_that_changed_on_the_device_is_found(device: OpenCLDevice, place: int) -> None:
    contents = np.random.default_rng(place).integers(0, 255, (5 << 20) + 4, np.uint8)
    changed = contents.copy()
    changed[place] ^= 1
    buffer = device.upload(changed)
    assert has_contents(device, buffer, changed)
    assert not has_contents(device, buffer, contents)
    assert has_contents(device, buffer, contents[place + 1 :], place + 1)
    with pytest.raises(DeviceError, match="buffer of"):
        has_contents(device, buffer, contents[:9], buffer.size)


def test_contents_arrive_and_come_back(device: OpenCLDevice) -> None:
    x = np.arange(1000, dtype=np.float32)
    buffer = device.upload(x)
    back = np.empty_like(x)
    device.read(buffer, back)
    assert np.array_equal(back, x)
    other = device.allocate(x.nbytes)
    device.write(other, x + 1)
    device.read(other, back)
    assert np.array_equal(back, x + 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
def test_any_element_type_is_bytes(device: OpenCLDevice, dtype: str) -> None:
    import ml_dtypes

    x = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    back = np.zeros_like(x)
    device.read(device.upload(x), back)
    assert back.tobytes() == x.tobytes()


@pytest.mark.parametrize("size", [1, 4, 100, 4096])
def test_fill_sets_every_byte(device: OpenCLDevice, size: int) -> None:
    buffer = device.allocate(size)
    device.fill(buffer, 0xA5)
    back = np.empty(size, np.uint8)
    device.read(buffer, back)
    assert (back == 0xA5).all()


@pytest.mark.parametrize("widest", [memory.PATTERN, memory.WIDEST_PATTERN])
@pytest.mark.parametrize("size", [1, 7, 16, 20, 130, 4095, 4096])
@pytest.mark.parametrize("offset", [0, 512, 513, 528])
def test_large_fills_are_copies_of_a_small_one(
    device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch, offset: int, size: int, widest: int
) -> None:
    monkeypatch.setattr(memory, "_FILL", 1024)
    buffer = device.allocate(8192)
    device.fill(buffer, 0x11)
    memory.enqueue_fill(device.queue, buffer.block, 0xA5, offset, size, widest)
    back = np.empty(8192, np.uint8)
    device.read(buffer, back)
    expected = np.full(8192, 0x11, np.uint8)
    expected[offset : offset + size] = 0xA5
    assert np.array_equal(back, expected)


def test_a_fill_starts_where_drivers_can_count(device: OpenCLDevice) -> None:
    block = device.allocate(8192).block
    with pytest.raises(DeviceError, match="fill at byte 34359738368"):
        memory.enqueue_fill(device.queue, block, 0, 32 << 30, 1024)


def test_views_go_with_their_memory(device: OpenCLDevice, runner: Runner) -> None:
    x = device.upload(np.zeros(64, np.float32))
    pool = OpenCLPool(device.context, device.queue, max_idle=0)
    for _ in range(3):  # each time with memory of its own, which is then released
        args = InvokeArgs(x=x, y=OpenCLBuffer(pool.take(1 << 20), 1 << 20, pool))
        runner.run(
            args,
            Fill(Memory.Y, 0, 1 << 20),
            *(
                runner.launch("affine", X, BufferArg(Memory.Y, offset << 10), f32(0), f32(offset))
                for offset in (16, 32, 24, 1)
            ),
        )
        result = np.empty(1 << 18, np.float32)
        assert args.y is not None
        device.read(args.y, result)
        assert np.flatnonzero(result).size == 4 * 64
        assert (result[32 << 8 :][:64] == 32).all()


def test_a_gpu_fills_memory_of_any_size(device: OpenCLDevice) -> None:
    size = device.queue.device.max_mem_alloc_size
    if device.target.kind != "gpu" or device.target.global_memory < 3 * size:
        pytest.skip(f"{device.target.name} has no memory to spare")
    neighbour, buffer = device.allocate(size // 2), device.allocate(size)
    device.fill(neighbour, 0x11)
    device.fill(buffer, 0xA5)
    sample = np.empty(1024, np.uint8)
    for part in np.linspace(0, 1, 8):
        for filled, byte in ((neighbour, 0x11), (buffer, 0xA5)):
            offset = int(part * (filled.size - sample.nbytes)) // 512 * 512
            cl.enqueue_copy(device.queue, sample, filled.native, src_offset=offset)
            assert (sample == byte).all(), offset


def test_an_aligned_array_is_read_in_place(device: OpenCLDevice, runner: Runner) -> None:
    x = aligned(64)
    x[:] = np.arange(64)
    args = InvokeArgs(x=device.upload(x), y=device.allocate(x.nbytes))
    x += 1  # seen by the device only if the memory is one and the same
    affine = runner.launch("affine", BufferArg(Memory.X), BufferArg(Memory.Y), f32(1), f32(0))
    runner.run(args, affine)
    y = np.empty_like(x)
    assert args.y is not None
    device.read(args.y, y)
    seen = x if shares_host_memory(device) else x - 1
    assert np.array_equal(y, seen)


def test_an_aligned_array_is_written_in_place(device: OpenCLDevice, runner: Runner) -> None:
    if not shares_host_memory(device):
        pytest.skip(f"{device.target.name} has memory of its own")
    x, y = aligned(64), aligned(64)
    args = InvokeArgs(x=device.upload(x), y=device.wrap_output(y))
    runner.run(
        args, runner.launch("affine", BufferArg(Memory.X), BufferArg(Memory.Y), f32(1), f32(5))
    )
    assert (y == 5).all()


def test_cpu_devices_share_host_memory(device: OpenCLDevice) -> None:
    assert shares_host_memory(device) == (device.target.kind == "cpu")


def test_unsuitable_arrays_are_not_wrapped(device: OpenCLDevice) -> None:
    array = aligned(64)
    frozen = aligned(64)
    frozen.flags.writeable = False
    assert device.wrap_output(array[1:]) is None
    assert device.wrap_output(array[::2]) is None
    assert device.wrap_output(array[:0]) is None
    assert device.wrap_output(frozen) is None


def test_an_unaligned_array_is_copied(device: OpenCLDevice) -> None:
    x = aligned(65)[1:]
    buffer = device.upload(x)
    x += 1
    back = np.empty_like(x)
    device.read(buffer, back)
    assert np.array_equal(back, x - 1)


def test_an_array_in_place_is_filled_written_and_read_as_any_memory(device: OpenCLDevice) -> None:
    if not shares_host_memory(device):
        pytest.skip("the device has memory of its own")
    array, numbers = aligned(64), np.arange(64, dtype=np.float32)
    buffer = device.wrap_output(array)
    assert buffer is not None
    device.fill(buffer, 1)
    device.synchronize()
    assert (array.view(np.uint8) == 1).all()
    device.write(buffer, numbers)
    device.synchronize()
    assert np.array_equal(array, numbers)
    back = np.empty(4, np.float32)
    device.read(buffer, back, offset=4 * 60)
    assert back.tolist() == [60, 61, 62, 63]
    assert device.overlap(buffer, buffer)


@pytest.mark.parametrize("start", [0, HOST_ALIGNMENT])
def test_an_uploaded_array_reads_back_as_kernels_see_it(device: OpenCLDevice, start: int) -> None:
    if not shares_host_memory(device):
        pytest.skip("the device has memory of its own")
    # Intel's runtime copies large arrays under some buffers, by where they start.
    raw = np.zeros(MIB, np.uint8)
    start += -raw.ctypes.data % (2 * HOST_ALIGNMENT)
    x = raw[start : start + MIB // 2].view(np.float32)
    buffer = device.upload(x)
    back = np.empty_like(x)
    device.read(buffer, back)
    x += 1
    device.read(buffer, back)
    assert (back == 1).all()


def test_a_read_only_array_can_be_uploaded(device: OpenCLDevice) -> None:
    x = aligned(64)
    x[:] = 3
    x.flags.writeable = False
    back = np.empty_like(x)
    device.read(device.upload(x), back)
    assert (back == 3).all()


def test_an_uploaded_array_is_never_overwritten(device: OpenCLDevice) -> None:
    if not shares_host_memory(device):
        pytest.skip(f"{device.target.name} has memory of its own")
    x = aligned(64)
    buffer = device.upload(x)
    with pytest.raises(DeviceError, match="read-only"):
        device.fill(buffer, 1)
    with pytest.raises(DeviceError, match="read-only"):
        device.write(buffer, x + 1)
    assert not x.any()


def test_a_used_array_is_not_kept_alive(device: OpenCLDevice, runner: Runner) -> None:
    invoker = runner.invoker(
        runner.launch("affine", BufferArg(Memory.X), BufferArg(Memory.Y), f32(1), f32(0))
    )
    x = aligned(64)
    buffer = device.upload(x)
    args = InvokeArgs(x=buffer, y=device.allocate(x.nbytes))
    invoker(args)
    device.synchronize()
    gone = weakref.ref(buffer)
    del buffer, args
    gc.collect()
    assert gone() is None


def test_a_kernel_leaves_the_rest_of_a_buffer_alone(device: OpenCLDevice, runner: Runner) -> None:
    before, inside = 512, 64 * 4
    y = device.allocate(2048)
    device.fill(y, 0xAA)
    args = InvokeArgs(x=device.upload(np.zeros(64, np.float32)), y=y)
    runner.run(
        args,
        runner.launch("affine", BufferArg(Memory.X), BufferArg(Memory.Y, before), f32(1), f32(2)),
    )
    back = np.empty(2048, np.uint8)
    device.read(y, back)
    assert (back[:before] == 0xAA).all()
    assert (back[before : before + inside].view(np.float32) == 2).all()
    assert (back[before + inside :] == 0xAA).all()


def test_an_empty_array_is_possible(device: OpenCLDevice) -> None:
    empty = np.empty((0, 3), np.float32)
    buffer = device.upload(empty)
    assert buffer.size == 0
    device.read(buffer, empty)
    device.write(buffer, empty)
    device.fill(buffer, 0)
