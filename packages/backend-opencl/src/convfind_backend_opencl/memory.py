"""Memory of an OpenCL device: its allocation, views of it, and fills."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyopencl as cl

from convfind.backend_kit import memory as kit
from convfind.backend_kit.memory import KeptBuffer
from convfind.backend_kit.pool import BufferPool
from convfind.errors import DeviceError
from convfind.solver.recipe import WORKSPACE_ALIGNMENT
from convfind_backend_opencl.errors import opencl_errors
from convfind_backend_opencl.large_pages import address_of, in_large_pages
from convfind_backend_opencl.target import is_nvidia

#: Bytes that one command fills at most, and the pattern that it repeats where it can.
_FILL = 1 << 30
PATTERN = 16
#: OpenCL's widest, with which Intel's CPU runtime fills four times as fast.
WIDEST_PATTERN = 128


class Block(kit.Block):
    """A piece of OpenCL memory: all of a buffer from ``origin`` on, and the views kernels use."""

    __slots__ = ("_bytes", "_parent", "_views", "memory", "origin")

    def __init__(
        self,
        memory: cl.Buffer,
        size: int,
        origin: int = 0,
        parent: cl.Buffer | None = None,
        owner: object = None,
    ) -> None:
        super().__init__(size, owner)
        self.memory = memory
        self.origin = origin
        # OpenCL has no view of a view: where the memory is one, further ones come from its parent.
        self._parent = parent
        self._views: dict[int, Any] = {}
        self._bytes: np.ndarray[Any, Any] | None = None

    def view(self, offset: int) -> Any:
        """Return a kernel argument that starts at an offset. Raises pyopencl's own errors."""
        start = self.origin + offset
        if start == 0:
            return self.memory
        if start not in self._views:
            self._views[start] = self._new_view(start, self.size - offset)
        return self._views[start]

    def _new_view(self, start: int, size: int) -> Any:
        (device,) = self.memory.context.devices[:1]
        if start % step_alignment_of_views(device) and not start % step_alignment(device):
            if self._bytes is None:
                self._bytes = _host_bytes(self.memory)
            return cl.SVM(self._bytes[start:])
        if is_nvidia(device):
            # NVIDIA's driver crashes when views that overlap are released. To kernels a view is a
            # pointer there, without an end, so views as small as their alignment do.
            size = min(size, WORKSPACE_ALIGNMENT)
        if self._parent is not None:
            return self._parent.get_sub_region(self.memory.offset + start, size)
        return self.memory.get_sub_region(start, size)

    def part(self, offset: int, size: int, owner: object) -> Block:
        """Return a piece of it that keeps the owner alive."""
        return Block(self.memory, size, self.origin + offset, self._parent, owner)

    def place(self) -> tuple[int, int]:
        """Return OpenCL's object that is no view, and the byte in it at which the block starts."""
        if self._parent is None:
            return self.memory.int_ptr, self.origin
        return self._parent.int_ptr, self.memory.offset + self.origin


class OpenCLBuffer(KeptBuffer[Block]):
    """Memory of an OpenCL device."""

    __slots__ = ()

    @property
    def native(self) -> cl.Buffer:
        """The pyopencl memory object, valid as long as this buffer is; it starts at `offset`."""
        return self.block.memory

    @property
    def offset(self) -> int:
        """Bytes of `native` before this buffer: not 0 for arrays that start inside another."""
        return self.block.origin


class OpenCLPool(BufferPool[Block]):
    """Memory of a context for the commands of a queue."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue, max_idle: int) -> None:
        # NVIDIA's driver would allocate more, and commands on it would then crash the device.
        super().__init__(max_idle, queue.device.max_mem_alloc_size)
        self._context = context
        self._queue = queue

    def create(self, size: int) -> Block:
        """Allocate."""
        device = self._queue.device
        limits = f"limit: {device.max_mem_alloc_size}, device memory: {device.global_mem_size}"
        with opencl_errors(f"allocation of {size} bytes ({limits})"):
            if device.type & cl.device_type.CPU:
                memory = in_large_pages(self._context, self._queue, size)
            else:
                memory = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
            if not device.host_unified_memory:
                # GPU drivers allocate at the first use; a failure belongs here and not into a
                # launch.
                cl.enqueue_migrate_mem_objects(
                    self._queue, [memory], cl.mem_migration_flags.CONTENT_UNDEFINED
                ).wait()
        return Block(memory, size)

    def drain(self) -> None:
        """Free everything idle when no command uses it any more."""
        with opencl_errors("waiting for memory"):
            self._queue.finish()
        self.clear()


def enqueue_fill(
    queue: cl.CommandQueue,
    block: Block,
    byte: int,
    offset: int,
    size: int,
    widest: int = PATTERN,
) -> tuple[cl.Event, cl.Event]:
    """Enqueue the filling of a region that is not empty; return the first and the last event.

    NVIDIA's driver hangs, fills a part only, or writes elsewhere, where offset or size are 2**31
    times the pattern or more. It fills nine times as fast with 16 bytes as with a single one. So a
    pattern of 16 bytes fills as much as it can of the first GiB, and copies of that fill the rest.
    """
    start = block.origin + offset
    fitting = (one for one in (widest, PATTERN) if start % one == 0 and size >= one)
    width = next(fitting, 1)
    if start >= width << 31:
        msg = f"fill at byte {start} of a buffer; possible: below {width << 31}"
        raise DeviceError(msg)
    filled = min(size, _FILL) // width * width
    pattern = bytes([byte]) * width
    first = last = cl.enqueue_fill_buffer(queue, block.memory, pattern, start, filled)
    for done in range(filled, size, filled):
        count = min(filled, size - done)
        last = cl.enqueue_copy(
            queue,
            block.memory,
            block.memory,
            src_offset=start,
            dst_offset=start + done,
            byte_count=count,
        )
    return first, last


def takes_host_pointers(device: cl.Device) -> bool:
    """Return whether kernels take any pointer of the host's."""
    try:
        can = device.svm_capabilities
    except (cl.Error, AttributeError):  # before OpenCL 2.0
        return False
    return bool(can & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)


def step_alignment(device: cl.Device) -> int:
    """Return what bytes are multiples of at which kernels may begin in memory."""
    is_cpu = device.type & cl.device_type.CPU and takes_host_pointers(device)
    return 4 if is_cpu else step_alignment_of_views(device)


def step_alignment_of_views(device: cl.Device) -> int:
    """Return the same of OpenCL's own views, which it says in bits."""
    return int(device.mem_base_addr_align) // 8


def _host_bytes(memory: cl.Buffer) -> np.ndarray[Any, Any]:
    """Return a CPU's buffer as what it is: bytes of the host's, without keeping it."""
    queue = cl.CommandQueue(memory.context)
    address = address_of(queue, memory)
    queue.finish()
    return np.ctypeslib.as_array((ctypes.c_uint8 * memory.size).from_address(address))
