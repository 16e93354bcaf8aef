"""`OpenCLDevice`: an opened device, its context, queue, compiler and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from convfind.backend_kit.device import Bytes, QueueDevice, check_fits
from convfind.backend_kit.pool import most_idle
from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError
from convfind.runtime.backend import DeviceBuffer, Invoker
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind_backend_opencl import interop
from convfind_backend_opencl.addressed import AddressedSteps, can_point
from convfind_backend_opencl.compiler import Compiler
from convfind_backend_opencl.cpu_threads import Caller, placed_workers
from convfind_backend_opencl.errors import opencl_errors, translated
from convfind_backend_opencl.host_memory import (
    HostMemory,
    host_block,
    is_usable_in_place,
    shares_host_memory,
)
from convfind_backend_opencl.invoker import OpenCLInvoker
from convfind_backend_opencl.memory import (
    PATTERN,
    WIDEST_PATTERN,
    OpenCLBuffer,
    OpenCLPool,
    enqueue_fill,
    step_alignment,
    step_alignment_of_views,
    takes_host_pointers,
)
from convfind_backend_opencl.module import LoadedProgram

#: The property of a queue whose commands the calling thread executes, as Intel's extension says.
_BY_CALLER = 1 << 31


class OpenCLDevice(QueueDevice[OpenCLBuffer]):
    """An opened OpenCL device.

    It does not survive a fork: the runtime's threads stay behind. A child process opens its own.
    """

    runtime = "OpenCL"
    buffer_type = OpenCLBuffer
    _compiler: Compiler

    def __init__(self, target: Target, context: cl.Context, queue: cl.CommandQueue) -> None:
        pool = OpenCLPool(context, queue, most_idle(target))
        super().__init__(target, Compiler(context, queue.device, target), pool)
        #: The pyopencl context and in-order queue, for work of one's own beside convfind's.
        self.context = context
        self.queue = queue
        self._host_memory = HostMemory(queue, most_idle(target))
        self._caller = Caller(target)
        # Intel's and PoCL's: both are LLVM behind one lock.
        self.compiles_in_turn = target.kind is DeviceKind.CPU
        self.step_alignment = step_alignment(queue.device)
        self._widest_pattern = WIDEST_PATTERN if target.kind is DeviceKind.CPU else PATTERN

    @classmethod
    def opened(cls, native: cl.Device, target: Target) -> OpenCLDevice:
        """Open a device with a context and a queue of its own."""
        with opencl_errors(f"opening {target.name}"), placed_workers(target):
            context = cl.Context([native])
            queue = cl.CommandQueue(context, native)
        return cls(target, context, queue)

    def load_code(self, program: Program, code: bytes) -> LoadedProgram:
        """Make a binary of the runtime ready."""
        return self._compiler.loaded(program, code)

    def prepare(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> OpenCLInvoker:
        """Make steps ready to run."""
        return OpenCLInvoker(
            self.queue,
            lambda: self._timing_queue,
            self.target,
            self._caller,
            self._host_memory,
            steps,
            loaded,
        )

    def upload(self, array: np.ndarray[Any, Any]) -> OpenCLBuffer:
        """Return memory with an array's contents: the array's own where kernels can read it."""
        self.check_usable()
        if self._shares_host_memory and array.flags.c_contiguous and is_usable_in_place(array):
            return self._in_place(array, writable=False)
        return super().upload(array)

    def wrap_output(self, array: np.ndarray[Any, Any]) -> OpenCLBuffer | None:
        """Return an array's own memory where kernels can write into it.

        The results are in the array after `synchronize`.
        """
        self.check_usable()
        flags = array.flags
        if not (flags.c_contiguous and flags.writeable and is_usable_in_place(array)):
            return None
        if not self._shares_host_memory:
            return None
        return self._in_place(array, writable=True)

    def addressed(
        self, invoker: Invoker, fixed: Mapping[str, DeviceBuffer], sizes: Mapping[str, int]
    ) -> AddressedSteps | None:
        """Return what runs steps on the host's memory by its addresses, on CPUs that take any."""
        self.check_usable()
        is_able = self._shares_host_memory and self._takes_host_pointers and can_point()
        if not is_able or not isinstance(invoker, OpenCLInvoker):
            return None
        own = {name: self._own(one) for name, one in fixed.items()}
        return invoker.addressed(own, sizes, self._local_queue)

    def copy_in(self, buffer: OpenCLBuffer, data: Bytes) -> None:
        """Copy from the host."""
        with opencl_errors(f"write of {data.size} bytes"):
            cl.enqueue_copy(self.queue, buffer.native, data, dst_offset=buffer.offset)
        self._host_memory.passed()  # the copy has waited for all that was before it

    def copy_out(self, data: Bytes, buffer: OpenCLBuffer, offset: int) -> None:
        """Copy to the host."""
        memory, origin = buffer.native, buffer.offset + offset
        with opencl_errors(f"read of {data.size} bytes"):
            self._caller.wait(lambda: cl.enqueue_copy(self.queue, data, memory, src_offset=origin))
        self._host_memory.passed()

    def seen(self, buffer: DeviceBuffer) -> AbstractContextManager[Bytes] | None:
        """Return the bytes of memory in place on a CPU, whose memory is the host's."""
        own = self._own(buffer)
        return self._mapped(own) if own.size and self._shares_host_memory else None

    @property
    def has_parts(self) -> bool:
        """Whether buffers may be parts of others: those of CPUs."""
        return self.target.kind is DeviceKind.CPU

    def part(self, buffer: DeviceBuffer, offset: int, size: int) -> DeviceBuffer:
        """Return a piece of a CPU's memory."""
        if not self.has_parts:
            return super().part(buffer, offset, size)
        own = self._own(buffer)
        check_fits(own, offset, size)
        step = step_alignment_of_views(self.queue.device)
        if (own.offset + offset) % step:
            msg = f"a part from byte {offset} on is not possible; allowed: multiples of {step}"
            raise DeviceError(msg)
        return OpenCLBuffer(own.block.part(offset, size, own), size)

    def set_bytes(self, buffer: OpenCLBuffer, byte: int) -> None:
        """Fill a buffer."""
        self._host_memory.is_idle = False
        with opencl_errors(f"fill of {buffer.size} bytes"):
            enqueue_fill(self.queue, buffer.block, byte, 0, buffer.size, self._widest_pattern)

    def adopt_tensor(self, tensor: object) -> OpenCLBuffer | None:
        """Return the memory of a pyopencl buffer or array without a copy."""
        return interop.adopt(tensor, self.context, self.queue, self._host_memory)

    def finish(self) -> None:
        """Wait for the queue."""
        try:
            self._caller.wait(self.queue.finish)
        except cl.Error as exc:
            raise translated(exc, f"waiting for {self.target.name}", DeviceError) from exc
        self._host_memory.passed()

    @cached_property
    def _timing_queue(self) -> cl.CommandQueue:
        """A queue whose events have times: an enqueue costs NVIDIA's driver 13 us there, else 5."""
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        if self.queue.properties & profiling:
            return self.queue
        with placed_workers(self.target):
            return cl.CommandQueue(self.context, self.queue.device, properties=profiling)

    @cached_property
    def _local_queue(self) -> cl.CommandQueue | None:
        """A queue whose commands the calling thread executes; None where a runtime has none."""
        native = self.queue.device
        if "cl_intel_exec_by_local_thread" not in native.extensions.split():
            return None
        try:
            return cl.CommandQueue(self.context, native, properties=_BY_CALLER)  # type: ignore[arg-type]
        except cl.Error:
            return None

    @cached_property
    def _shares_host_memory(self) -> bool:
        # GPUs that share the host's memory want page alignment and a size in whole cache lines,
        # which NumPy arrays do not have.
        is_cpu = self.target.kind is DeviceKind.CPU and self.target.has("unified-memory")
        return is_cpu and shares_host_memory(self.context, self.queue)

    @cached_property
    def _takes_host_pointers(self) -> bool:
        return takes_host_pointers(self.queue.device)

    @contextmanager
    def _mapped(self, own: OpenCLBuffer) -> Iterator[Bytes]:
        mapped: list[Any] = []

        def add() -> None:
            shape, dtype, flags = (own.size,), np.dtype(np.uint8), cl.map_flags.READ
            memory, _ = cl.enqueue_map_buffer(
                self.queue, own.native, flags, own.offset, shape, dtype
            )
            mapped.append(memory)

        with opencl_errors(f"map of {own.size} bytes"):
            self._caller.wait(add)
        self._host_memory.passed()
        (memory,) = mapped
        try:
            yield memory
        finally:
            memory.base.release(self.queue)

    def _in_place(self, array: np.ndarray[Any, Any], *, writable: bool) -> OpenCLBuffer:
        try:
            self._host_memory.make_room()
        except cl.Error as exc:
            raise translated(exc, f"waiting for {self.target.name}", DeviceError) from exc
        by_pointer = self._takes_host_pointers
        block = host_block(self.context, array, writable=writable, by_pointer=by_pointer)
        return OpenCLBuffer(block, array.nbytes, self._host_memory, read_only=not writable)
