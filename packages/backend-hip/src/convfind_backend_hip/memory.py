"""Memory of a HIP device: its allocation, and sharing it with other libraries."""

from __future__ import annotations

from hip import hip

from convfind.backend_kit import dlpack
from convfind.backend_kit.addressed import AddressBlock, AddressBuffer, AddressPool
from convfind.device.target import Target
from convfind_backend_hip.errors import checked
from convfind_backend_hip.stream import Event

#: Streams as others may pass them: they wait themselves, and the names of the default stream.
_NO_STREAM = -1
_DEFAULT_STREAM = 0
_NOT_OF_ROCM = (1, 2)


class HipBuffer(AddressBuffer):
    """Device memory, from a pool or of another library."""

    __slots__ = ()


class HipPool(AddressPool):
    """Memory of a device for one stream. hipFree waits for the device, so nothing is in use."""

    def __init__(self, target: Target, number: int, stream: int, max_idle: int) -> None:
        super().__init__((dlpack.ROCM, number), stream, max_idle)
        self._number = number
        self._total = target.global_memory

    def create(self, size: int) -> AddressBlock:
        """Allocate."""
        doing = f"allocation of {size} bytes (device memory: {self._total})"
        checked(hip.hipSetDevice(self._number), "hipSetDevice", doing)
        pointer = checked(hip.hipMalloc(size), "hipMalloc", doing)
        return AddressBlock(int(pointer), size, free=hip.hipFree)

    def reader(self, stream: int | None) -> int | None:
        """Return a reader's stream: None means the default one, -1 that it waits itself."""
        if stream == _NO_STREAM:
            return None
        named = _DEFAULT_STREAM if stream is None else stream
        if named in _NOT_OF_ROCM or named < 0:
            msg = f"stream {stream}: not one of ROCm's; pass 0, -1 or a stream's address"
            raise BufferError(msg)
        return named

    def hold_back(self, stream: int) -> None:
        """Let another stream wait for what is under way."""
        checked(hip.hipSetDevice(self._number), "hipSetDevice", "sharing a tensor")
        reached = Event()
        reached.record(self.stream)
        reached.hold_back(stream)
