"""Memory of a CUDA device: its allocation, and sharing it with other libraries."""

from __future__ import annotations

from cuda.bindings import driver

from convfind.backend_kit import dlpack
from convfind.backend_kit.addressed import AddressBlock, AddressBuffer, AddressPool
from convfind.device.target import Target
from convfind.errors import DeviceError
from convfind_backend_cuda.errors import checked
from convfind_backend_cuda.queue import DEFAULT, Queue
from convfind_backend_cuda.stream import Event, capture_check

#: Streams as others may pass them: they wait themselves, or the default stream's other name.
_NO_STREAM = -1
LEGACY_STREAM = 1


class CudaBuffer(AddressBuffer):
    """Device memory, from a pool or of another library."""

    __slots__ = ()


class CudaPool(AddressPool):
    """Memory of a device, allocated and freed in the order of its queue."""

    def __init__(self, target: Target, number: int, queue: Queue, max_idle: int) -> None:
        super().__init__((dlpack.CUDA, number), queue.stream, max_idle)
        self.queue = queue
        self._total = target.global_memory
        self._free = _Freeing(queue)

    def take(self, size: int) -> AddressBlock:
        """Return memory. Raises `DeviceError` in a capture: a graph would keep using it."""
        if self.queue.is_capturing:
            msg = (
                f"allocation of {size} bytes while a CUDA graph is captured: each replay would use "
                "memory that others have by then; pass out= and workspace= of your own"
            )
            raise DeviceError(msg)
        return super().take(size)

    def create(self, size: int) -> AddressBlock:
        """Allocate."""
        doing = f"allocation of {size} bytes (device memory: {self._total})"
        with self.queue.context:
            self._free.late()
            allocated = driver.cuMemAllocAsync(size, self.queue.stream)
            pointer = checked(allocated, "cuMemAllocAsync", doing)
        return AddressBlock(int(pointer), size, free=self._free)

    def drain(self) -> None:
        """Free everything idle, and wait until the driver has it back."""
        super().drain()
        with self.queue.context:
            driver.cuCtxSynchronize()

    def give(self, block: AddressBlock) -> None:
        """Take memory back; what other streams may use is freed behind all of them."""
        if block.is_shared:
            self._free.shared.add(block.address)
        super().give(block)

    def reader(self, stream: int | None) -> int | None:
        """Return a reader's stream: None means the default one, -1 that it waits itself."""
        self.stream = self.queue.stream  # with which the reader's is compared
        if stream == _NO_STREAM:
            return None
        if stream is not None and stream < 0:
            msg = f"stream {stream}: not one of CUDA's; pass 1, 2, -1 or a stream's address"
            raise BufferError(msg)
        return DEFAULT if stream in (None, LEGACY_STREAM) else stream

    def hold_back(self, stream: int) -> None:
        """Let another stream wait for what is under way."""
        with self.queue.context:
            reached = Event()
            reached.record(self.queue.stream)
            reached.hold_back(stream)


class _Freeing:
    """Gives memory back to the driver, behind the work that uses it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.shared: set[int] = set()
        self._later: list[int] = []
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._free, self._wait = driver.cuMemFreeAsync, driver.cuCtxSynchronize
        self._is_capturing = capture_check()

    def __call__(self, address: int) -> None:
        if self._is_capturing(self._queue.stream):
            self._later.append(address)  # else it would become a part of the graph
            return
        with self._queue.context:
            if address in self.shared:
                self.shared.discard(address)
                self._wait()
            self._free(address, self._queue.stream)

    def late(self) -> None:
        """Free what became free in a capture."""
        while self._later:
            self(self._later.pop())
