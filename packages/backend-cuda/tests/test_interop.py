"""Other libraries' tensors over a stand-in for the driver: in and out, and who waits for whom."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_standin import TARGET, StandinDriver

from convfind.backend_kit import dlpack
from convfind.errors import DeviceError, LaunchError
from convfind.runtime.backend import TensorForm
from convfind.types import DataType
from convfind_backend_cuda import interop
from convfind_backend_cuda.device import CudaDevice
from convfind_backend_cuda.memory import CudaBuffer
from convfind_backend_cuda.stream import address_of

STREAM = 0x50
FORM = TensorForm((4, 8), (8, 1), "float32")


def aligned(count: int) -> np.ndarray[Any, Any]:
    memory = np.zeros(count + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + count]


class Producer:
    """A tensor of another library, in the host's memory, which it calls a GPU's."""

    def __init__(self, *, number: int = 0, form: TensorForm = FORM, offset: int = 0) -> None:
        self.memory = aligned(64)
        self.address = self.memory.ctypes.data + offset
        self.number, self.form = number, form
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.number

    def __dlpack__(self, *, stream: int | None) -> object:
        self.streams.append(stream)
        return dlpack.share(self, self.address, self.__dlpack_device__(), self.form)


class Interface:
    """An object with the CUDA array interface and nothing else."""

    def __init__(self, **more: Any) -> None:
        self.memory = aligned(32)
        self.__cuda_array_interface__ = {
            "data": (self.memory.ctypes.data, False),
            "shape": (4, 8),
            "typestr": "<f4",
            "strides": None,
            "version": 3,
            **more,
        }


def test_a_tensor_with_dlpack_is_used_in_place(device: CudaDevice) -> None:
    producer = Producer()
    buffer = device.adopt(producer)
    assert buffer is not None
    assert (buffer.address, buffer.size, buffer.form) == (producer.address, 128, FORM)
    assert producer.streams == [STREAM]


def test_the_default_stream_has_the_name_that_dlpack_gives_it(driver: StandinDriver) -> None:
    device = CudaDevice(TARGET, 0, 0)
    producer = Producer()
    device.adopt(producer)
    assert producer.streams == [1]
    device.close()


def test_a_foreign_tensor_is_kept_until_the_queue_is_past_it(
    driver: StandinDriver, device: CudaDevice
) -> None:
    buffers = [device.adopt(Producer())]
    driver.journal.clear()
    buffers.clear()
    assert driver.journal == [("record", STREAM)]


@pytest.mark.parametrize(
    ("producer", "message"),
    [
        (Producer(number=1), "tensor lies on cuda:1, and cuda:0 is open; open cuda:1"),
        (Producer(form=TensorForm((4, 8), (16, 1), "float32")), "has gaps"),
        (Producer(offset=4), "does not start at a multiple of 16 bytes"),
    ],
)
def test_what_cannot_be_used_in_place_is_refused(
    device: CudaDevice, producer: Producer, message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        device.adopt(producer)


def test_the_array_interface_is_used_in_place_and_its_stream_waited_for(
    driver: StandinDriver, device: CudaDevice
) -> None:
    given = Interface(stream=0x70)
    buffer = device.adopt(given)
    assert buffer is not None
    assert (buffer.address, buffer.size, buffer.form) == (given.memory.ctypes.data, 128, FORM)
    assert driver.journal == [("record", 0x70), ("wait", STREAM)]


def test_the_array_interface_says_gaps_and_what_may_not_be_written(device: CudaDevice) -> None:
    given = Interface(strides=(32, 4))
    read_only = Interface(data=(given.memory.ctypes.data, True))
    assert not device.adopt(given).read_only  # type: ignore[union-attr]
    assert device.adopt(read_only).read_only  # type: ignore[union-attr]
    with pytest.raises(DeviceError, match="has gaps"):
        device.adopt(Interface(strides=(64, 4)))


def test_elements_of_several_numbers_are_another_type(device: CudaDevice) -> None:
    """Two halves have the bits of a float32, and are none."""

    class Pairs(Producer):
        def __dlpack__(self, *, stream: int | None) -> object:
            capsule = super().__dlpack__(stream=stream)
            address = dlpack._address_in(capsule, b"dltensor")
            managed = ctypes.cast(address, ctypes.POINTER(dlpack._ManagedTensor)).contents
            managed.tensor.dtype.bits, managed.tensor.dtype.lanes = 16, 2
            return capsule

    buffer = device.adopt(Pairs())
    assert buffer is not None
    assert buffer.form is not None
    assert buffer.form.dtype == "DLPack's type 2:16x2"
    assert buffer.size == 128


def test_anything_else_is_nobodys(device: CudaDevice) -> None:
    assert device.adopt(np.zeros(3)) is None
    assert device.adopt("tensor") is None
    own = device.allocate(16)
    assert device.adopt(own) is own


def torch_tensor(**more: Any) -> Any:
    memory = aligned(32)
    known = {
        "is_cuda": True,
        "device": SimpleNamespace(index=0),
        "requires_grad": False,
        "is_neg": lambda: False,
        "dtype": "torch.float32",
        "shape": (4, 8),
        "stride": lambda: (8, 1),
        "data_ptr": lambda: memory.ctypes.data,
        "numel": lambda: 32,
        "element_size": lambda: 4,
    }
    return SimpleNamespace(**(known | more))


def test_tensors_of_pytorch_need_no_wait(driver: StandinDriver, device: CudaDevice) -> None:
    recording = SimpleNamespace(is_grad_enabled=lambda: True)
    tensor = torch_tensor()
    buffer = interop._of_torch(recording, tensor, 0)
    assert (buffer.address, buffer.size, buffer.form) == (tensor.data_ptr(), 128, FORM)
    assert buffer.block.owner is tensor
    del buffer
    assert driver.journal == []


def test_a_gradient_is_refused_only_while_pytorch_records() -> None:
    asking = torch_tensor(requires_grad=True)
    with pytest.raises(DeviceError, match=r"use its detach\(\)"):
        interop._of_torch(SimpleNamespace(is_grad_enabled=lambda: True), asking, 0)
    assert interop._of_torch(SimpleNamespace(is_grad_enabled=lambda: False), asking, 0)


def test_memory_with_the_other_sign_is_refused() -> None:
    """As the imaginary part of a conjugate has it."""
    lazily = torch_tensor(is_neg=lambda: True)
    with pytest.raises(DeviceError, match=r"use its resolve_neg\(\)"):
        interop._of_torch(SimpleNamespace(is_grad_enabled=lambda: False), lazily, 0)


def test_bytes_in_a_foreign_order_are_another_type(device: CudaDevice) -> None:
    """NumPy gives the types of both orders one name."""
    foreign = np.dtype(np.float32).newbyteorder().str
    buffer = device.adopt(Interface(typestr=foreign))
    assert buffer is not None
    assert buffer.form is not None
    assert buffer.form.dtype not in set(DataType)


def test_tensors_of_pytorch_on_the_host_are_the_hosts(device: CudaDevice) -> None:
    torch = pytest.importorskip("torch")
    assert device.adopt(torch.zeros(4)) is None


class Capsule:
    """What a reader finds in a capsule."""

    def __init__(self, buffer: CudaBuffer, stream: int | None) -> None:
        self.foreign = dlpack.ForeignTensor(buffer.dlpack(FORM, stream))


@pytest.mark.parametrize(
    ("reader", "waits"),
    [(STREAM, []), (-1, []), (None, [0]), (1, [0]), (2, [2]), (0x90, [0x90])],
)
def test_readers_of_other_streams_wait(
    driver: StandinDriver, device: CudaDevice, reader: int | None, waits: list[int]
) -> None:
    buffer = device.allocate(128)
    driver.journal.clear()
    capsule = Capsule(buffer, reader)
    assert capsule.foreign.address == buffer.address
    assert capsule.foreign.form == FORM
    assert [stream for kind, stream in driver.journal if kind == "wait"] == waits


def test_memory_that_others_read_elsewhere_is_freed_and_not_used_again(
    driver: StandinDriver, device: CudaDevice
) -> None:
    buffers = [device.allocate(128)]
    capsules = [Capsule(buffers[0], 0x90)]
    driver.journal.clear()
    buffers.clear()
    capsules.clear()
    device.allocate(8)  # which looks for what others have done with
    assert driver.journal[:2] == [("wait for all",), ("free", STREAM)]


def test_a_stream_that_does_not_exist_is_refused(device: CudaDevice) -> None:
    with pytest.raises(BufferError, match="stream -5"):
        device.allocate(128).dlpack(FORM, -5)


def test_memory_of_others_is_not_shared_again(device: CudaDevice) -> None:
    buffer = device.adopt(Producer())
    assert buffer is not None
    with pytest.raises(BufferError, match="share that library's own tensor"):
        buffer.dlpack(FORM, None)


def test_streams_are_addresses_or_have_the_protocol() -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0x30

    assert address_of(0x20) == 0x20
    assert address_of(Stream()) == 0x30
    with pytest.raises(LaunchError, match="stream is a str"):
        address_of("0")


def test_the_host_reads_what_the_device_wrote(device: CudaDevice) -> None:
    producer = Producer()
    buffer = device.adopt(producer)
    assert buffer is not None
    device.fill(buffer, 0x3F)
    assert ctypes.string_at(producer.address, 128) == b"\x3f" * 128
