"""Memory of a HIP device: its allocation, and sharing it with other libraries."""

from __future__ import annotations

from hip import hip

from convfind.backend_kit import dlpack
from convfind.backend_kit.addressed import AddressBlock, AddressBuffer, AddressPool
from convfind.device.target import Target
from convfind.runtime.backend import TensorForm
from convfind_backend_hip.errors import checked
from convfind_backend_hip.stream import Event

#: What others may pass for a stream: they wait themselves, and the names of the default stream.
_NO_STREAM = -1
_DEFAULT_STREAM = 0
_NOT_OF_ROCM = (1, 2)


class HipBuffer(AddressBuffer):
    """Device memory, from a pool or of another library."""

    __slots__ = ()

    def dlpack_device(self) -> tuple[int, int]:
        """Return DLPack's number of ROCm, and that of the device."""
        return dlpack.ROCM, self._pool().number

    def dlpack(self, form: TensorForm, stream: int | None) -> object:
        """Return a capsule that shares the memory as a tensor.

        ``stream`` waits for what is under way here; None means the default one, -1 none. Raises
        `BufferError` for a stream that ROCm does not have.
        """
        pool = self._pool()
        reader = _DEFAULT_STREAM if stream is None else stream
        if reader in _NOT_OF_ROCM or reader < _NO_STREAM:
            msg = f"stream {stream}: not one of ROCm's; pass 0, -1 or a stream's address"
            raise BufferError(msg)
        if reader != pool.stream:
            if reader != _NO_STREAM:
                pool.hold_back(reader)
            # The reader may be at it when the buffer goes: hipFree waits for all streams.
            self.block.is_shared = True
        return dlpack.share(self, self.address, self.dlpack_device(), form)

    def _pool(self) -> HipPool:
        if not isinstance(self._keeper, HipPool):
            msg = "memory of another library; share that library's own tensor"
            raise BufferError(msg)
        return self._keeper


class HipPool(AddressPool):
    """Memory of a device for one stream. hipFree waits for the device, so nothing is in use."""

    def __init__(self, target: Target, number: int, stream: int, max_idle: int) -> None:
        super().__init__(max_idle)
        self.number = number
        self.stream = stream
        self._total = target.global_memory

    def create(self, size: int) -> AddressBlock:
        """Allocate."""
        doing = f"allocation of {size} bytes (device memory: {self._total})"
        checked(hip.hipSetDevice(self.number), "hipSetDevice", doing)
        pointer = checked(hip.hipMalloc(size), "hipMalloc", doing)
        return AddressBlock(int(pointer), size, free=hip.hipFree)

    def hold_back(self, stream: int) -> None:
        """Let another stream wait for what is under way."""
        checked(hip.hipSetDevice(self.number), "hipSetDevice", "sharing a tensor")
        reached = Event()
        reached.record(self.stream)
        reached.hold_back(stream)
