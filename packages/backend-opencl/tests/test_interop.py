"""The user's own pyopencl objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.tools
import pytest
from opencl_testing import Runner

from convfind.errors import DeviceError
from convfind.runtime.backend import InvokeArgs, TensorForm
from convfind.solver.recipe import BufferArg, Memory, f32
from convfind.types import DataType
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.device import OpenCLDevice

AFFINE = (BufferArg(Memory.X), BufferArg(Memory.Y), f32(2), f32(1))
VALUES = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def own(backend: OpenCLBackend, device: OpenCLDevice) -> OpenCLDevice:
    """A device on a context and queue that the user has made."""
    context = cl.Context([device.queue.device])
    return backend.open_native(context, cl.CommandQueue(context))


@pytest.fixture(scope="module")
def own_runner(own: OpenCLDevice) -> Runner:
    return Runner(own)


def test_the_users_context_and_queue_are_used(own: OpenCLDevice, device: OpenCLDevice) -> None:
    assert own.target == device.target
    assert own.context != device.context
    assert own.allocate(16).native.context == own.context


def test_a_users_buffer_is_used_without_a_copy(own: OpenCLDevice, own_runner: Runner) -> None:
    flags = cl.mem_flags
    x = cl.Buffer(own.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=VALUES)
    y = cl.Buffer(own.context, flags.READ_WRITE, VALUES.nbytes)
    args = InvokeArgs(x=own.adopt(x), y=own.adopt(y))
    own_runner.run(args, own_runner.launch("affine", *AFFINE))
    result = np.empty_like(VALUES)
    cl.enqueue_copy(own.queue, result, y)
    assert np.array_equal(result, 2 * VALUES + 1)


def test_a_view_can_be_viewed_again(own: OpenCLDevice, own_runner: Runner) -> None:
    whole = cl.Buffer(own.context, cl.mem_flags.READ_WRITE, 4096)
    y = own.adopt(whole.get_sub_region(1024, 2048))
    assert y is not None
    assert y.size == 2048
    args = InvokeArgs(x=own.upload(VALUES), y=y)
    arguments = (AFFINE[0], BufferArg(Memory.Y, 512), *AFFINE[2:])
    own_runner.run(args, own_runner.launch("affine", *arguments))
    result = np.empty_like(VALUES)
    cl.enqueue_copy(own.queue, result, whole, src_offset=1536)
    assert np.array_equal(result, 2 * VALUES + 1)


def test_arrays_with_and_without_offset(own: OpenCLDevice, own_runner: Runner) -> None:
    x = cl.array.to_device(own.queue, VALUES)
    both = cl.array.empty(own.queue, (2, 1024), np.float32)
    y = both[1, :64]
    assert y.offset == 4096
    args = InvokeArgs(x=own.adopt(x), y=own.adopt(y))
    own_runner.run(args, own_runner.launch("affine", *AFFINE))
    assert np.array_equal(y.get(), 2 * VALUES + 1)
    assert args.y is not None
    own.write(args.y, -VALUES)
    result = np.empty_like(VALUES)
    own.read(args.y, result)
    assert np.array_equal(result, -VALUES)
    assert np.array_equal(y.get(), -VALUES)
    own.fill(args.y, 0)
    assert not y.get().any()


def test_an_array_says_how_it_lies(own: OpenCLDevice) -> None:
    array: Any = cl.array.to_device(own.queue, np.zeros((8, 16), np.float32))
    for given, form in (
        (array, TensorForm((8, 16), (16, 1), "float32")),
        (array.T, TensorForm((16, 8), (1, 16), "float32")),
        (array.view(np.int8), TensorForm((8, 64), (64, 1), "int8")),
    ):
        adopted = own.adopt(given)
        assert adopted is not None
        assert (adopted.form, adopted.size) == (form, 512)


def test_bytes_in_a_foreign_order_are_another_type(own: OpenCLDevice) -> None:
    """NumPy gives the types of both orders one name."""
    foreign = VALUES.astype(VALUES.dtype.newbyteorder())
    adopted = own.adopt(cl.array.to_device(own.queue, foreign))
    assert adopted is not None
    assert adopted.form is not None
    assert adopted.form.dtype not in set(DataType)


def test_memory_that_kernels_may_not_write_says_so(own: OpenCLDevice) -> None:
    for flags in (cl.mem_flags.READ_ONLY, cl.mem_flags.READ_WRITE):
        adopted = own.adopt(cl.Buffer(own.context, flags, 64))
        assert adopted is not None
        assert adopted.read_only == (flags == cl.mem_flags.READ_ONLY)


def test_buffers_overlap_where_they_share_a_byte(own: OpenCLDevice, device: OpenCLDevice) -> None:
    whole = cl.Buffer(own.context, cl.mem_flags.READ_WRITE, 4096)
    parts = [whole.get_sub_region(at, size) for at, size in ((0, 1024), (512, 1024), (1536, 512))]
    first, second, third = (own.adopt(part) for part in parts)
    array = cl.array.empty(own.queue, (4, 256), np.float32)
    rows = own.adopt(array[:2]), own.adopt(array[1:]), own.adopt(array[2:])
    for one, other, expected in (
        (first, second, True),
        (second, third, False),
        (first, third, False),
        (own.adopt(whole), third, True),
        (rows[0], rows[1], True),
        (rows[0], rows[2], False),
        (first, rows[0], False),
    ):
        assert one is not None
        assert other is not None
        assert own.overlap(one, other) is expected
        assert own.overlap(other, one) is expected
    assert not device.overlap(device.allocate(16), device.allocate(16))


def test_pooled_memory_of_pyopencl(own: OpenCLDevice, own_runner: Runner) -> None:
    pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(own.queue))
    whole = cl.array.empty(own.queue, (2, 1024), np.float32, allocator=pool)
    args = InvokeArgs(x=own.upload(VALUES), y=own.adopt(whole[1]))
    own_runner.run(args, own_runner.launch("affine", *AFFINE))
    assert np.array_equal(whole.get()[1, :64], 2 * VALUES + 1)


def test_work_of_another_queue_comes_first(own: OpenCLDevice) -> None:
    other = cl.CommandQueue(own.context)
    array = cl.array.empty(own.queue, 1 << 20, np.float32)
    assert isinstance(array.base_data, cl.Buffer)
    seven = np.float32(7).tobytes()
    array.add_event(cl.enqueue_fill_buffer(other, array.base_data, seven, 0, array.nbytes))
    buffer = own.adopt(array)
    assert buffer is not None
    result = np.empty(1 << 20, np.float32)
    own.read(buffer, result)
    assert (result == 7).all()


def test_what_cannot_be_adopted(own: OpenCLDevice, device: OpenCLDevice) -> None:
    assert own.adopt(VALUES) is None
    assert own.adopt(object()) is None
    array = cl.array.to_device(own.queue, np.zeros((8, 8), np.float32))
    with pytest.raises(DeviceError, match="has gaps"):
        own.adopt(array[:, :4])
    with pytest.raises(DeviceError, match="starts at byte 4 of its buffer"):
        own.adopt(array[0, 1:])
    for foreign in (array, array.base_data, own.allocate(16)):
        with pytest.raises(DeviceError, match="belongs to another context"):
            device.adopt(foreign)


def test_a_buffer_of_the_device_is_adopted_as_it_is(device: OpenCLDevice) -> None:
    buffer = device.allocate(16)
    assert device.adopt(buffer) is buffer


def test_queues_that_do_not_fit(backend: OpenCLBackend, device: OpenCLDevice) -> None:
    native = device.queue.device
    with pytest.raises(DeviceError, match="queue belongs to another context"):
        backend.open_native(cl.Context([native]), device.queue)
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    if native.queue_properties & out_of_order:
        queue = cl.CommandQueue(device.context, native, properties=out_of_order)
        with pytest.raises(DeviceError, match="out of order"):
            backend.open_native(device.context, queue)


def test_closing_leaves_the_users_queue_open(backend: OpenCLBackend, device: OpenCLDevice) -> None:
    queue = cl.CommandQueue(device.context, device.queue.device)
    opened = backend.open_native(device.context, queue)
    opened.close()
    memory = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64)
    cl.enqueue_fill_buffer(queue, memory, b"\1", 0, 64).wait()
