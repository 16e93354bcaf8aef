"""`CudaDevice`: an opened device, its queue, compiler and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuda.bindings import driver

from convfind.backend_kit.borrowed import Borrowed
from convfind.backend_kit.device import Bytes, QueueDevice
from convfind.backend_kit.pointed import Point
from convfind.backend_kit.pool import most_idle
from convfind.device.target import Target
from convfind.runtime.backend import DeviceBuffer, Invoker
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind_backend_cuda import interop
from convfind_backend_cuda.compiler import Compiler
from convfind_backend_cuda.context import context_of
from convfind_backend_cuda.cublas import CuBlas
from convfind_backend_cuda.errors import checked
from convfind_backend_cuda.graph import ReplayedInvoker
from convfind_backend_cuda.invoker import CudaInvoker
from convfind_backend_cuda.memory import CudaBuffer, CudaPool
from convfind_backend_cuda.module import LoadedProgram, load_program
from convfind_backend_cuda.queue import Queue
from convfind_backend_cuda.stream import Event


class CudaDevice(QueueDevice[CudaBuffer]):
    """An opened CUDA device with one queue, in the context that other libraries use, too.

    It does not survive a fork: CUDA does not. A child process starts anew.
    """

    runtime = "CUDA"
    buffer_type = CudaBuffer

    def __init__(self, target: Target, number: int, stream: int | None = None) -> None:
        context = context_of(number)
        context.use()
        queue = Queue(context, number, stream)
        super().__init__(
            target, Compiler(target), CudaPool(target, number, queue, most_idle(target))
        )
        self.number = number
        #: The order of its work.
        self.queue = queue
        self._borrowed = Borrowed(0, lambda: _LastUse(queue))
        self._library: CuBlas | None = None

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the stream that work goes to now, as other libraries ask for it."""
        return 0, self.queue.follow()

    def load_code(self, program: Program, code: bytes) -> LoadedProgram:
        """Load a CUBIN."""
        return load_program(program, code, self.queue.context)

    def prepare(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> CudaInvoker:
        """Make steps ready to run."""
        with self.queue.context:
            return CudaInvoker(self, steps, loaded)

    def replayed(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> ReplayedInvoker:
        """Make steps ready that run as one CUDA graph where their memory stays the same."""
        self.check_usable()
        with self.queue.context:
            return ReplayedInvoker(self, steps, loaded)

    def addressed(
        self, invoker: Invoker, fixed: Mapping[str, DeviceBuffer], sizes: Mapping[str, int]
    ) -> Point | None:
        """Return what enqueues steps on the device's memory by its addresses."""
        self.check_usable()
        if not isinstance(invoker, CudaInvoker):
            return None
        return invoker.addressed({name: self._own(one) for name, one in fixed.items()}, sizes)

    def trim(self) -> None:
        """Give idle memory back to the driver, and so to other libraries; waits for the device."""
        if self._pool.idle:
            self._pool.drain()

    def library(self) -> CuBlas:
        """cuBLAS on this device's queue. Raises `BackendUnavailableError` where it is missing."""
        if self._library is None:
            pool = self._pool  # this and not the device, which would keep itself alive
            self._library = CuBlas(self.queue, lambda size: CudaBuffer(pool.take(size), size, pool))
        return self._library

    def copy_in(self, buffer: CudaBuffer, data: Bytes) -> None:
        """Copy from the host, and wait: its memory is not pinned and may go away."""
        doing, stream = f"write of {data.size} bytes", self.queue.follow()
        with self.queue.context:
            copied = driver.cuMemcpyHtoDAsync(buffer.address, data.ctypes.data, data.size, stream)
            checked(copied, "cuMemcpyHtoDAsync", doing)
            checked(driver.cuStreamSynchronize(stream), "cuStreamSynchronize", doing)

    def copy_out(self, data: Bytes, buffer: CudaBuffer, offset: int) -> None:
        """Copy to the host, and wait."""
        doing, stream = f"read of {data.size} bytes", self.queue.follow()
        start = buffer.address + offset
        with self.queue.context:
            copied = driver.cuMemcpyDtoHAsync(data.ctypes.data, start, data.size, stream)
            checked(copied, "cuMemcpyDtoHAsync", doing)
            checked(driver.cuStreamSynchronize(stream), "cuStreamSynchronize", doing)

    def set_bytes(self, buffer: CudaBuffer, byte: int) -> None:
        """Fill a buffer."""
        stream = self.queue.follow()
        with self.queue.context:
            filled = driver.cuMemsetD8Async(buffer.address, byte, buffer.size, stream)
        checked(filled, "cuMemsetD8Async", f"fill of {buffer.size} bytes")

    def adopt_tensor(self, tensor: object) -> CudaBuffer | None:
        """Return the memory of another library's CUDA tensor without a copy."""
        return interop.adopt(tensor, self.number, self.queue, self._borrowed)

    def finish(self) -> None:
        """Wait for the queue."""
        stream = self.queue.follow()
        with self.queue.context:
            waited = driver.cuStreamSynchronize(stream)
            checked(waited, "cuStreamSynchronize", f"waiting for {self.target.name}")
            self._borrowed.sweep()

    def release(self) -> None:
        """Release library and other libraries' tensors."""
        if self._library is not None:
            self._library.close()
        self._borrowed.close()


class _LastUse(Event):
    """The moment when the queue, on whichever stream, is past what is enqueued."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def record(self, stream: int) -> None:
        """Set the event; ``stream`` is the queue's."""
        with self._queue.context:
            super().record(self._queue.stream)
