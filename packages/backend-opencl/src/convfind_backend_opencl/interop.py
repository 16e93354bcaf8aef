"""The user's own pyopencl objects: contexts, queues, buffers and arrays, used without a copy."""

from __future__ import annotations

import sys

import pyopencl as cl

from convfind.errors import DeviceError
from convfind.runtime.backend import TensorForm
from convfind.runtime.tensors import type_name
from convfind_backend_opencl.errors import opencl_errors
from convfind_backend_opencl.host_memory import HostMemory
from convfind_backend_opencl.memory import Block, OpenCLBuffer


def check_queue(context: cl.Context, queue: cl.CommandQueue) -> None:
    """Refuse a queue that belongs elsewhere or that may change the order of commands."""
    if queue.context != context:
        msg = "queue belongs to another context; pass a queue made from the context"
        raise DeviceError(msg)
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        msg = "queue is out of order; pass an in-order queue, since steps follow one another in it"
        raise DeviceError(msg)


def adopt(
    tensor: object, context: cl.Context, queue: cl.CommandQueue, host_memory: HostMemory
) -> OpenCLBuffer | None:
    """Return the memory of a buffer or array of pyopencl, None for anything else.

    Raises `DeviceError` for memory of another context, and for an array that has gaps or starts
    where the device can make no view.
    """
    if isinstance(tensor, OpenCLBuffer):
        _check_context(tensor.block.memory, context)
        return tensor
    if isinstance(tensor, cl.MemoryObjectHolder) and not isinstance(tensor, cl.Image):
        _check_context(tensor, context)
        return _buffer(tensor, _block(tensor), tensor.size, host_memory, None)
    # An array can only come from a program that has imported the module.
    arrays = sys.modules.get("pyopencl.array")
    if arrays is not None and isinstance(tensor, arrays.Array):
        return _adopt_array(tensor, context, queue, host_memory)
    return None


def _adopt_array(
    array: object, context: cl.Context, queue: cl.CommandQueue, host_memory: HostMemory
) -> OpenCLBuffer | None:
    from pyopencl.array import Array

    assert isinstance(array, Array)
    memory = array.base_data
    if not isinstance(memory, cl.MemoryObjectHolder):
        return None  # shared virtual memory
    _check_context(memory, context)
    steps = tuple(step // array.dtype.itemsize for step in array.strides)
    form = TensorForm(array.shape, steps, type_name(array.dtype))
    if not form.is_dense:
        msg = f"array of shape {form.shape} and strides {form.strides} has gaps; use its copy()"
        raise DeviceError(msg)
    if array.events:
        # Work that other queues do on the array comes first.
        with opencl_errors("wait for the events of an array"):
            cl.enqueue_barrier(queue, wait_for=array.events)
    block = _block(memory)
    if array.offset:
        alignment = queue.device.mem_base_addr_align // 8
        if array.offset % alignment:
            msg = (
                f"array starts at byte {array.offset} of its buffer, not at a multiple of the "
                f"device's {alignment}; use its copy()"
            )
            raise DeviceError(msg)
        block.origin, block.size = array.offset, array.nbytes
    return _buffer(memory, block, array.nbytes, host_memory, form)


def _buffer(
    holder: cl.MemoryObjectHolder,
    block: Block,
    size: int,
    host_memory: HostMemory,
    form: TensorForm | None,
) -> OpenCLBuffer:
    flags = block.memory.flags
    is_own = isinstance(holder, cl.Buffer) and not flags & cl.mem_flags.USE_HOST_PTR
    read_only = bool(flags & cl.mem_flags.READ_ONLY)
    keeper = None if is_own else host_memory
    return OpenCLBuffer(block, size, keeper, read_only=read_only, form=form)


def _check_context(memory: cl.MemoryObjectHolder, context: cl.Context) -> None:
    if memory.context != context:
        msg = "buffer belongs to another context; open that context's device with open_native"
        raise DeviceError(msg)


def _block(holder: cl.MemoryObjectHolder) -> Block:
    # Memory from one of pyopencl's pools is of another class, which makes no views.
    is_buffer = isinstance(holder, cl.Buffer)
    memory = holder if is_buffer else cl.Buffer.from_int_ptr(holder.int_ptr, retain=True)
    assert isinstance(memory, cl.Buffer)
    parent = memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
    if not isinstance(parent, cl.Buffer):
        return Block(memory, memory.size, owner=holder)
    return Block(memory, memory.size, parent=parent, owner=holder)
