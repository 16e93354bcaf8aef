"""The kit's device on the host's memory: checked arguments, and closing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.backend_kit.device import Bytes, QueueDevice
from convfind.backend_kit.memory import Block, KeptBuffer
from convfind.backend_kit.pool import BufferPool
from convfind.errors import DeviceError
from convfind.runtime.backend import Invoker
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind.testing import MOCK_TARGET, MockBackend


class HostBlock(Block):
    """Memory of the host."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.data = np.zeros(size, np.uint8)

    def place(self) -> tuple[int, int]:
        return 0, self.data.ctypes.data


class HostPool(BufferPool[HostBlock]):
    """Memory without an end."""

    def create(self, size: int) -> HostBlock:
        return HostBlock(size)


class HostBuffer(KeptBuffer[HostBlock]):
    """Memory of the device."""


class Naming(ProgramCompiler):
    """Code is the name of the source."""

    magic = b"name\0"

    def build(self, program: Program) -> tuple[bytes, str]:
        return str(program.source).encode(), "built"


class HostDevice(QueueDevice[HostBuffer]):
    """A device that notes what it is asked for, and may fail when it is waited for."""

    runtime = "Host"
    buffer_type = HostBuffer

    def __init__(self) -> None:
        super().__init__(MOCK_TARGET, Naming(MOCK_TARGET), HostPool(1 << 20))
        self.noted: list[str] = []
        self.fails = False

    def load_code(self, program: Program, code: bytes) -> object:
        return code.decode()

    def prepare(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> Invoker:
        raise NotImplementedError

    def copy_in(self, buffer: HostBuffer, data: Bytes) -> None:
        self.noted.append(f"in {data.size}")
        buffer.block.data[: data.size] = data

    def copy_out(self, data: Bytes, buffer: HostBuffer, offset: int) -> None:
        self.noted.append(f"out {data.size} from {offset}")
        data[...] = buffer.block.data[offset : offset + data.size]

    def set_bytes(self, buffer: HostBuffer, byte: int) -> None:
        self.noted.append(f"set {buffer.size} to {byte}")

    def adopt_tensor(self, tensor: object) -> HostBuffer | None:
        return None

    def finish(self) -> None:
        self.noted.append("finish")
        if self.fails:
            raise DeviceError("it does not finish")

    def release(self) -> None:
        self.noted.append("release")


def test_the_runtime_gets_what_has_been_checked() -> None:
    device = HostDevice()
    array: Any = np.arange(6, dtype=np.int16).reshape(2, 3)
    buffer = device.upload(array)
    device.fill(buffer, 7)
    back = np.empty(2, np.int16)
    device.read(buffer, back, offset=4)
    assert back.tolist() == [2, 3]
    assert device.noted == ["in 12", "set 12 to 7", "out 4 from 4"]
    frozen = HostBuffer(buffer.block, 12, read_only=True)
    for refused in (
        lambda: device.write(buffer, np.zeros(7, np.int16)),
        lambda: device.write(buffer, array.T),
        lambda: device.write(frozen, array),
        lambda: device.read(buffer, back, offset=-1),
        lambda: device.read(buffer, back, offset=9),
        lambda: device.fill(buffer, 256),
        lambda: device.fill(frozen, 0),
        lambda: device.allocate(-1),
        lambda: device.overlap(buffer, MockBackend().open().allocate(4)),
    ):
        with pytest.raises(DeviceError):
            refused()
    assert len(device.noted) == 3


def test_nothing_of_no_bytes_reaches_the_runtime() -> None:
    device = HostDevice()
    buffer = device.upload(np.empty(0, np.float32))
    device.read(buffer, np.empty((0, 3), np.float32))
    device.fill(buffer, 1)
    assert device.noted == []


def test_programs_are_compiled_sealed_and_loaded() -> None:
    device = HostDevice()
    program = Program(KernelSource("convfind.testing", "kernels/mock.cl"))
    binary = device.compile(program)
    assert device.load(program, binary) == "convfind.testing/kernels/mock.cl"
    assert device.build_log(program) == "built"


def test_closing_releases_everything_once_even_if_the_queue_fails() -> None:
    device = HostDevice()
    buffer = device.allocate(4096)
    del buffer
    device.fails = True
    with pytest.raises(DeviceError, match="does not finish"):
        device.close()
    device.close()
    assert device.noted == ["finish", "release"]
    assert device._pool.idle == 0
    with pytest.raises(DeviceError, match="is closed; open it again"):
        device.synchronize()


def test_a_child_process_is_refused_and_closes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    device = HostDevice()
    monkeypatch.setattr(device, "_process", 1)  # opened by another
    with pytest.raises(DeviceError, match="opened in process 1, and Host does not survive a fork"):
        device.allocate(4)
    device.close()
    assert device.noted == []
