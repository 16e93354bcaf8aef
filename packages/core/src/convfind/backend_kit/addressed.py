"""`AddressBuffer`, `AddressPool`: memory of runtimes whose kernels take plain addresses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from convfind.backend_kit import dlpack
from convfind.backend_kit.memory import Block, Keeper, KeptBuffer
from convfind.backend_kit.pool import BufferPool
from convfind.runtime.backend import TensorForm


class AddressBlock(Block):
    """A piece of device memory at an address; freed with the last reference if it is our own."""

    __slots__ = ("_free", "address", "is_shared")

    def __init__(
        self,
        address: int,
        size: int,
        owner: object = None,
        free: Callable[[int], object] | None = None,
    ) -> None:
        super().__init__(size, owner)
        self.address = address
        self.is_shared = False  # with other streams, so that no pool may reuse it
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._free = free

    def place(self) -> tuple[int, int]:
        """Return the address: all memory is in one space."""
        return 0, self.address

    def __del__(self) -> None:
        free = getattr(self, "_free", None)
        if free is not None:
            free(self.address)  # fails after a crash of the device only, which others report


class AddressBuffer(KeptBuffer[AddressBlock]):
    """Memory at an address."""

    __slots__ = ("address",)

    def __init__(
        self,
        block: AddressBlock,
        size: int,
        keeper: Keeper[AddressBlock] | None = None,
        *,
        read_only: bool = False,
        form: TensorForm | None = None,
    ) -> None:
        super().__init__(block, size, keeper, read_only=read_only, form=form)
        #: Where it starts, as kernels see it.
        self.address = block.address

    def dlpack_device(self) -> tuple[int, int]:
        """Return DLPack's kind and number of the device. Raises `BufferError`."""
        return self._pool().device

    def dlpack(self, form: TensorForm, stream: int | None) -> object:
        """Return a capsule that shares the memory as a tensor.

        ``stream``, the reader's as in the array API, waits for what is under way here. Raises
        `BufferError` for a stream that the runtime does not have.
        """
        pool = self._pool()
        reader = pool.reader(stream)
        if reader != pool.stream:
            if reader is not None:
                pool.hold_back(reader)
            # The reader may be at it when the buffer goes: its memory is freed, not reused.
            self.block.is_shared = True
        return dlpack.share(self, self.address, pool.device, form)

    def _pool(self) -> AddressPool:
        if not isinstance(self._keeper, AddressPool):
            msg = "memory of another library; share that library's own tensor"
            raise BufferError(msg)
        return self._keeper


class AddressPool(BufferPool[AddressBlock]):
    """Memory for one stream, some of it shared with other libraries through DLPack.

    Freeing a block waits for all streams that may still use it.
    """

    def __init__(self, device: tuple[int, int], stream: int, max_idle: int) -> None:
        """Make an empty pool for DLPack's kind and number of a device, and a stream's address."""
        super().__init__(max_idle)
        self.device = device
        self.stream = stream

    @abstractmethod
    def reader(self, stream: int | None) -> int | None:
        """Return the stream that a reader names, as in the array API; None if it waits itself.

        Raises `BufferError` for a stream that the runtime does not have.
        """

    @abstractmethod
    def hold_back(self, stream: int) -> None:
        """Let another stream wait for what is under way."""

    def take(self, size: int) -> AddressBlock:
        """Return memory, perhaps such as other libraries have done with."""
        dlpack.take_back()
        return super().take(size)

    def give(self, block: AddressBlock) -> None:
        """Take memory back, unless work on other streams may still use it."""
        if block.is_shared:
            self.forget(block)
        else:
            super().give(block)

    def clear(self) -> None:
        """Free everything idle."""
        dlpack.take_back()
        super().clear()
