"""Device memory: buffers, the pool that reuses them, and host arrays used in place."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from typing import Any

import numpy as np
import pyopencl as cl

from convfind.backend_kit import memory as kit
from convfind.backend_kit.memory import KeptBuffer, bytes_of
from convfind.backend_kit.pool import BufferPool
from convfind.errors import DeviceError
from convfind.solver.recipe import WORKSPACE_ALIGNMENT
from convfind_backend_opencl.errors import opencl_errors, translated
from convfind_backend_opencl.large_pages import address_of, in_large_pages
from convfind_backend_opencl.target import is_nvidia

#: Host arrays are used in place from this alignment on: kernels may read memory as ``float16``.
HOST_ALIGNMENT = 64

#: How kernels use host arrays: values, as each call needs one.
_READ = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
_WRITTEN = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR

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


class HostBlock(Block):
    """An array of the host's, which kernels get as a plain pointer.

    CPU runtimes take ten times as long over the first use of a buffer as over a pointer, and
    results mostly lie where none lay before. Whatever else needs a buffer gets one, a writable one
    for inputs too: Intel's runtime copies arrays under buffers that are only read, unless they
    start at multiples of 128 bytes, and the copy would not follow what kernels see.
    """

    __slots__ = ("_array", "_context", "_made")

    def __init__(self, context: cl.Context, array: np.ndarray[Any, Any]) -> None:
        kit.Block.__init__(self, array.nbytes, array)
        self.origin, self._parent = 0, None
        self._context, self._array = context, bytes_of(array)
        self._made: cl.Buffer | None = None

    @property
    def memory(self) -> cl.Buffer:  # type: ignore[override]
        """A buffer on the array. Raises pyopencl's own errors."""
        if self._made is None:
            self._made = cl.Buffer(self._context, _WRITTEN, hostbuf=self._array)
        return self._made

    def view(self, offset: int) -> Any:
        """Return a kernel argument that starts at an offset."""
        return cl.SVM(self._array[offset:] if offset else self._array)


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


class HostMemory:
    """Keeps host memory that kernels use in place until the queue is past them.

    OpenCL keeps its own memory until then, but neither the array under a buffer nor what a pool of
    the user's may hand out again.
    """

    __slots__ = ("_kept", "_most", "_process", "_queue", "is_idle")

    def __init__(self, queue: cl.CommandQueue, most: int) -> None:
        self._queue = queue
        self._process = os.getpid()
        self._most = most
        self._kept: deque[Block] = deque()
        #: False while something that was enqueued may be under way.
        self.is_idle = True

    def give(self, block: Block) -> None:
        """Keep a block as long as something is under way. Called by finalisers."""
        if not self.is_idle:
            self._kept.append(block)

    def passed(self) -> None:
        """Let go of everything: all that was enqueued has finished."""
        self.is_idle = True
        self._kept.clear()

    def make_room(self) -> None:
        """Wait for the queue where more than the limit is kept."""
        if self._kept and self.kept > self._most:
            self._queue.finish()
            self.passed()

    @property
    def kept(self) -> int:
        """Bytes that nobody but the device uses."""
        return sum(block.size for block in tuple(self._kept))

    def __del__(self) -> None:
        # The device was dropped without being closed.
        if getattr(self, "_kept", None) and self._process == os.getpid():
            self._queue.finish()


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


def is_usable_in_place(array: np.ndarray[Any, Any]) -> bool:
    """True where kernels can work on the array's own memory, on a device that shares it."""
    # `array.ctypes.data` takes three times as long.
    address: int = array.__array_interface__["data"][0]
    return array.nbytes > 0 and address % HOST_ALIGNMENT == 0


def host_block(
    context: cl.Context, array: np.ndarray[Any, Any], *, writable: bool, by_pointer: bool = False
) -> Block:
    """Return an array's own memory as a block that keeps the array alive.

    ``by_pointer`` where `takes_host_pointers` says that kernels may get it so; arrays that must not
    be written are no such pointers to pyopencl.
    """
    if by_pointer and array.flags.writeable:
        return HostBlock(context, array)
    flags = _WRITTEN if writable else _READ
    try:
        memory = cl.Buffer(context, flags, hostbuf=bytes_of(array))
    except cl.Error as exc:
        doing = f"use of a host array of {array.nbytes} bytes in place"
        raise translated(exc, doing, DeviceError) from exc
    return Block(memory, array.nbytes, owner=array)


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


def shares_host_memory(context: cl.Context, queue: cl.CommandQueue) -> bool:
    """Try it: write through a buffer on a host array and look at the array.

    ``CL_DEVICE_HOST_UNIFIED_MEMORY`` does not promise it, and a copy would go unnoticed.
    """
    raw = np.zeros(4096 + HOST_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % HOST_ALIGNMENT
    array = raw[start : start + 4096]
    try:
        block = host_block(context, array, writable=True)
        enqueue_fill(queue, block, 1, 0, array.nbytes)
        queue.finish()
    except (cl.Error, DeviceError):
        return False
    return bool(array.all())
