"""`OpenCLDevice`: an opened device, its context, queue, compiler and memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError
from convfind.runtime.backend import Device, DeviceBuffer
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind_backend_opencl import interop
from convfind_backend_opencl.compiler import Compiler, LoadedProgram
from convfind_backend_opencl.cpu_threads import Caller, placed_workers
from convfind_backend_opencl.errors import opencl_errors
from convfind_backend_opencl.invoker import OpenCLInvoker
from convfind_backend_opencl.memory import (
    Block,
    BufferPool,
    HostMemory,
    OpenCLBuffer,
    bytes_of,
    enqueue_fill,
    host_block,
    is_usable_in_place,
    shares_host_memory,
)

#: Memory that waits for reuse is at most this part of the device's.
_IDLE_SHARE = 8


class OpenCLDevice(Device):
    """An opened OpenCL device.

    It does not survive a fork: the runtime's threads stay behind. A child process opens its own.
    """

    def __init__(self, target: Target, context: cl.Context, queue: cl.CommandQueue) -> None:
        self.target = target
        #: The pyopencl context and in-order queue, for work of one's own beside convfind's.
        self.context = context
        self.queue = queue
        self._compiler = Compiler(context, queue.device, target)
        most_idle = target.global_memory // _IDLE_SHARE
        self._pool = BufferPool(context, queue, most_idle)
        self._host_memory = HostMemory(queue, most_idle)
        self._caller = Caller(target)
        self._process = os.getpid()
        self._closed = False

    @classmethod
    def opened(cls, native: cl.Device, target: Target) -> OpenCLDevice:
        """Open a device with a context and a queue of its own."""
        with opencl_errors(f"opening {target.name}"), placed_workers(target):
            context = cl.Context([native])
            queue = cl.CommandQueue(context, native)
        return cls(target, context, queue)

    def compile(self, program: Program) -> bytes:
        """Compile to a binary."""
        self._check_usable()
        return self._compiler.compile(program)

    def load(self, program: Program, binary: bytes) -> LoadedProgram:
        """Make a binary ready."""
        self._check_usable()
        return self._compiler.load(program, binary)

    def build_log(self, program: Program) -> str:
        """What the compiler said of a program built here: on NVIDIA, its registers and spills."""
        return self._compiler.build_log(program)

    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> OpenCLInvoker:
        """Make steps ready to run."""
        self._check_usable()
        return OpenCLInvoker(
            self.queue,
            lambda: self._timing_queue,
            self.target,
            self._caller,
            self._host_memory,
            steps,
            loaded,
        )

    def allocate(self, size: int) -> OpenCLBuffer:
        """Return undefined memory from the pool."""
        self._check_usable()
        if size < 0:
            msg = f"size of a buffer: {size} bytes is not possible; allowed: 0 or more"
            raise DeviceError(msg)
        return OpenCLBuffer(self._pool.take(size), size, self._pool)

    def upload(self, array: np.ndarray[Any, Any]) -> OpenCLBuffer:
        """Return memory with an array's contents: the array's own where kernels can read it."""
        self._check_usable()
        if self._shares_host_memory and array.flags.c_contiguous and is_usable_in_place(array):
            return self._in_place(array, writable=False)
        buffer = self.allocate(array.nbytes)
        self.write(buffer, array)
        return buffer

    def wrap_output(self, array: np.ndarray[Any, Any]) -> OpenCLBuffer | None:
        """Return an array's own memory where kernels can write into it.

        The results are in the array after `synchronize`.
        """
        self._check_usable()
        flags = array.flags
        if not (flags.c_contiguous and flags.writeable and is_usable_in_place(array)):
            return None
        if not self._shares_host_memory:
            return None
        return self._in_place(array, writable=True)

    def write(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any]) -> None:
        """Copy an array into existing memory."""
        block = self._block(buffer, array.nbytes, writing=True)
        if array.nbytes:
            with opencl_errors(f"write of {array.nbytes} bytes"):
                cl.enqueue_copy(self.queue, block.memory, bytes_of(array), dst_offset=block.origin)
            self._host_memory.passed()  # the copy has waited for all that was before it

    def read(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        """Copy memory into an array, after everything enqueued before."""
        block = self._block(buffer, offset + array.nbytes)
        if array.nbytes:
            with opencl_errors(f"read of {array.nbytes} bytes"):
                origin = block.origin + offset
                self._caller.wait(
                    lambda: cl.enqueue_copy(
                        self.queue, bytes_of(array), block.memory, src_offset=origin
                    )
                )
            self._host_memory.passed()

    def fill(self, buffer: DeviceBuffer, byte: int) -> None:
        """Set every byte of a buffer."""
        block = self._block(buffer, 0, writing=True)
        if buffer.size:
            self._host_memory.is_idle = False
            with opencl_errors(f"fill of {buffer.size} bytes"):
                enqueue_fill(self.queue, block, byte, 0, buffer.size)

    def adopt(self, tensor: object) -> OpenCLBuffer | None:
        """Return the memory of a pyopencl buffer or array without a copy."""
        self._check_usable()
        return interop.adopt(tensor, self.context, self.queue, self._host_memory)

    def overlap(self, first: DeviceBuffer, second: DeviceBuffer) -> bool:
        """Return whether two buffers have a byte in common, views of one memory included."""
        if isinstance(first, OpenCLBuffer) and isinstance(second, OpenCLBuffer):
            return first.block.overlaps(second.block, first.size, second.size)
        return False

    def synchronize(self) -> None:
        """Wait until everything enqueued has finished."""
        self._check_process()
        with opencl_errors(f"waiting for {self.target.name}"):
            self._caller.wait(self.queue.finish)
        self._host_memory.passed()

    def close(self) -> None:
        """Wait for what is under way and release the pool's memory."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        with opencl_errors(f"waiting for {self.target.name}"):
            self.queue.finish()
        self._host_memory.passed()
        self._pool.close()

    @cached_property
    def _timing_queue(self) -> cl.CommandQueue:
        """A queue whose events have times: an enqueue costs NVIDIA's driver 13 us there, else 5."""
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        if self.queue.properties & profiling:
            return self.queue
        with placed_workers(self.target):
            return cl.CommandQueue(self.context, self.queue.device, properties=profiling)

    @cached_property
    def _shares_host_memory(self) -> bool:
        # GPUs that share the host's memory want page alignment and a size in whole cache lines,
        # which NumPy arrays do not have.
        is_cpu = self.target.kind is DeviceKind.CPU and self.target.has("unified-memory")
        return is_cpu and shares_host_memory(self.context, self.queue)

    def _in_place(self, array: np.ndarray[Any, Any], *, writable: bool) -> OpenCLBuffer:
        with opencl_errors(f"waiting for {self.target.name}"):
            self._host_memory.make_room()
        block = host_block(self.context, array, writable=writable)
        return OpenCLBuffer(block, array.nbytes, self._host_memory, read_only=not writable)

    def _block(self, buffer: DeviceBuffer, size: int, *, writing: bool = False) -> Block:
        """The block of a buffer that can hold ``size`` bytes."""
        self._check_usable()
        if not isinstance(buffer, OpenCLBuffer):
            msg = f"{type(buffer).__name__} is not a buffer of the opencl backend"
            raise DeviceError(msg)
        if size > buffer.size:
            msg = f"array of {size} bytes does not fit a buffer of {buffer.size} bytes"
            raise DeviceError(msg)
        if writing and buffer.read_only:
            msg = "buffer is the memory of an uploaded array and read-only; allocate another"
            raise DeviceError(msg)
        return buffer.block

    def _check_usable(self) -> None:
        self._check_process()
        if self._closed:
            msg = f"{self.target.name} is closed; open it again"
            raise DeviceError(msg)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            msg = (
                f"{self.target.name} was opened in process {self._process}, and OpenCL does not "
                "survive a fork; open it again in this process"
            )
            raise DeviceError(msg)
