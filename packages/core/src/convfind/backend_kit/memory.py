"""`Block`, `KeptBuffer`: device memory, and the buffers through which callers hold it."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from convfind.errors import DeviceError
from convfind.runtime.backend import TensorForm

_SERIAL = itertools.count(1)


class Block(ABC):
    """A piece of device memory, or of memory that others own and the device uses."""

    __slots__ = ("owner", "serial", "size")

    def __init__(self, size: int, owner: object = None) -> None:
        self.size = size
        self.owner = owner  # kept alive with the block
        #: Tells blocks apart without keeping them alive, as an invoker must.
        self.serial = next(_SERIAL)

    @abstractmethod
    def place(self) -> tuple[int, int]:
        """Return an address space, and the byte in it at which the block starts."""


BlockT = TypeVar("BlockT", bound=Block)
_Taken = TypeVar("_Taken", contravariant=True)


class Keeper(Protocol[_Taken]):
    """Takes a block when nobody uses its buffer any more."""

    def give(self, block: _Taken) -> None:
        """Take a block. Called by finalisers, so at any moment, even inside another method."""


class KeptBuffer(Generic[BlockT]):
    """Device memory. Its block goes to its keeper when nobody uses the buffer any more."""

    __slots__ = ("__weakref__", "_keeper", "block", "form", "read_only", "serial", "size")

    def __init__(
        self,
        block: BlockT,
        size: int,
        keeper: Keeper[BlockT] | None = None,
        *,
        read_only: bool = False,
        form: TensorForm | None = None,
    ) -> None:
        self.block = block
        self.size = size
        self.serial = block.serial
        self.read_only = read_only  # never written from here
        #: Layout of another library's tensor in it.
        self.form = form
        self._keeper = keeper

    def __del__(self) -> None:
        # Absent where the constructor did not finish.
        keeper = getattr(self, "_keeper", None)
        if keeper is not None:
            keeper.give(self.block)


def overlap(first: KeptBuffer[Any], second: KeptBuffer[Any]) -> bool:
    """Return whether two buffers have a byte in common, views of one memory included."""
    one: Block = first.block
    other: Block = second.block
    (space, start), (other_space, other_start) = one.place(), other.place()
    return (
        space == other_space
        and start < other_start + second.size
        and other_start < start + first.size
    )


def bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a C-contiguous array's memory as bytes: bfloat16 has no buffer protocol of its own.

    Raises `DeviceError` for any other array.
    """
    if not array.flags.c_contiguous:
        msg = f"array of shape {array.shape} is not C-contiguous; use numpy.ascontiguousarray"
        raise DeviceError(msg)
    return array.reshape(-1).view(np.uint8)
