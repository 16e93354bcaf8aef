"""`AddressBuffer`, `AddressPool`: memory of runtimes whose kernels take plain addresses."""

from __future__ import annotations

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


class AddressPool(BufferPool[AddressBlock]):
    """Memory for one stream, some of it shared with other libraries through DLPack."""

    def take(self, size: int) -> AddressBlock:
        """Return memory, perhaps such as other libraries have done with."""
        dlpack.take_back()
        return super().take(size)

    def give(self, block: AddressBlock) -> None:
        """Take memory back, unless work on other streams may still use it."""
        if not block.is_shared:
            super().give(block)

    def clear(self) -> None:
        """Free everything idle."""
        dlpack.take_back()
        super().clear()
