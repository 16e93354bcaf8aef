"""Other libraries' ROCm tensors through DLPack, used without a copy."""

from __future__ import annotations

from convfind.backend_kit import dlpack
from convfind.backend_kit.addressed import AddressBlock
from convfind.backend_kit.borrowed import Borrowed
from convfind_backend_hip.memory import HipBuffer


def adopt(tensor: object, number: int, stream: int, borrowed: Borrowed | None) -> HipBuffer | None:
    """Return the memory of a ROCm tensor, None for anything else.

    ``borrowed`` is for a stream that the tensor's library does not know; without it tensors are
    given back at once. Raises `DeviceError` for a tensor that cannot be used in place.
    """
    if isinstance(tensor, HipBuffer):
        return tensor
    if borrowed is not None:
        borrowed.sweep()
    foreign = dlpack.foreign_tensor(tensor, "hip", (dlpack.ROCM, number), stream)
    if foreign is None:
        return None
    block = AddressBlock(foreign.address, foreign.size, foreign)
    return HipBuffer(block, foreign.size, borrowed, form=foreign.form)
