"""Other libraries' CUDA tensors, used without a copy.

PyTorch's belong to its current stream, on which the queue works. Others come through DLPack, whose
libraries make the stream wait, or through the CUDA array interface, which names a stream to wait
for.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from cuda.bindings import driver

from convfind.backend_kit import dlpack
from convfind.backend_kit.addressed import AddressBlock
from convfind.backend_kit.borrowed import Borrowed
from convfind.errors import DeviceError
from convfind.problem.tensor_spec import packed_steps
from convfind.runtime.backend import TensorForm
from convfind.runtime.tensors import type_name
from convfind_backend_cuda.errors import checked
from convfind_backend_cuda.memory import LEGACY_STREAM, CudaBuffer
from convfind_backend_cuda.queue import DEFAULT, Queue
from convfind_backend_cuda.stream import Event


def adopt(tensor: object, number: int, queue: Queue, borrowed: Borrowed) -> CudaBuffer | None:
    """Return the memory of a CUDA tensor, None for anything else.

    ``borrowed`` keeps tensors of libraries that do not know the stream. Raises `DeviceError` for a
    tensor that cannot be used in place.
    """
    if isinstance(tensor, CudaBuffer):
        return tensor
    torch = sys.modules.get("torch")  # a tensor of it can only come from a program that has it
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _of_torch(torch, tensor, number) if tensor.is_cuda else None
    stream = queue.follow()
    borrowed.sweep()
    foreign = dlpack.foreign_tensor(
        tensor, "cuda", (dlpack.CUDA, number), LEGACY_STREAM if stream == DEFAULT else stream
    )
    if foreign is not None:
        block = AddressBlock(foreign.address, foreign.size, foreign)
        return CudaBuffer(block, foreign.size, borrowed, form=foreign.form)
    if hasattr(tensor, "__cuda_array_interface__"):
        return _of_interface(tensor, number, queue, borrowed)
    return None


def _of_torch(torch: Any, tensor: Any, number: int) -> CudaBuffer:
    """The memory of a tensor of PyTorch, which its allocator gives to later work of its stream."""
    dlpack.check_device("cuda", tensor.device.index, number)
    if tensor.requires_grad and torch.is_grad_enabled():
        msg = "tensor requires a gradient, which convfind does not record; use its detach()"
        raise DeviceError(msg)
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_neg():
        msg = "tensor's memory holds the numbers with the other sign; use its resolve_neg()"
        raise DeviceError(msg)
    form = TensorForm(tuple(tensor.shape), tensor.stride(), dtype)
    address: int = tensor.data_ptr()
    dlpack.check_in_place(form, address)
    size: int = tensor.numel() * tensor.element_size()
    return CudaBuffer(AddressBlock(address, size, tensor), size, form=form)


def _of_interface(tensor: Any, number: int, queue: Queue, borrowed: Borrowed) -> CudaBuffer:
    """The memory of an object that has the CUDA array interface and no DLPack."""
    given: dict[str, Any] = tensor.__cuda_array_interface__
    address, read_only = given["data"]
    shape, dtype = tuple(given["shape"]), np.dtype(given["typestr"])
    steps = given.get("strides")
    strides = packed_steps(shape) if steps is None else tuple(s // dtype.itemsize for s in steps)
    form = TensorForm(shape, strides, type_name(dtype))
    dlpack.check_in_place(form, address)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    with queue.context:
        if size:
            dlpack.check_device("cuda", _device_of(address), number)
        if (producer := given.get("stream")) is not None:
            reached = Event()
            reached.record(DEFAULT if producer == LEGACY_STREAM else producer)
            reached.hold_back(queue.stream)
    block = AddressBlock(address, size, tensor)
    return CudaBuffer(block, size, borrowed, read_only=read_only, form=form)


def _device_of(address: int) -> int:
    which = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    asked = driver.cuPointerGetAttribute(which, address)
    number: int = checked(asked, "cuPointerGetAttribute", f"tensor at {address:#x}")
    return number
