"""`HipDevice`: an opened device, its stream, compiler and memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hip import hip

from convfind.device.target import Target
from convfind.errors import DeviceError
from convfind.runtime.backend import Device, DeviceBuffer
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind_backend_hip import interop
from convfind_backend_hip.compiler import Compiler
from convfind_backend_hip.errors import checked
from convfind_backend_hip.invoker import HipInvoker
from convfind_backend_hip.memory import BufferPool, HipBuffer, check_contiguous
from convfind_backend_hip.module import LoadedProgram, load_program
from convfind_backend_hip.rocblas import RocBlas

#: Memory that waits for reuse is at most this part of the device's.
_IDLE_SHARE = 8


class HipDevice(Device):
    """An opened HIP device with one stream.

    It does not survive a fork: the runtime's threads stay behind. A child process opens its own.
    """

    def __init__(
        self, target: Target, number: int, stream: int, *, owned: object | None = None
    ) -> None:
        self.target = target
        self.number = number
        #: Address of the stream that everything runs in.
        self.stream = stream
        self._owned = owned  # the stream, where it is this device's to destroy
        self._compiler = Compiler(target)
        most_idle = target.global_memory // _IDLE_SHARE
        self._pool = BufferPool(number, stream, target.global_memory, most_idle)
        # The caller's own stream comes before what its library does next with the memory.
        self._borrowed = None if owned is None else interop.Borrowed(stream)
        self._library: RocBlas | None = None
        self._process = os.getpid()
        self._closed = False

    @classmethod
    def opened(cls, number: int, target: Target) -> HipDevice:
        """Open a device with a stream of its own."""
        doing = f"opening {target.name}"
        checked(hip.hipSetDevice(number), "hipSetDevice", doing)
        # Not held up by the default stream, which other libraries of the process may use.
        stream = checked(
            hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking),
            "hipStreamCreateWithFlags",
            doing,
        )
        return cls(target, number, int(stream), owned=stream)

    def compile(self, program: Program) -> bytes:
        """Compile to a code object."""
        self._check_usable()
        return self._compiler.compile(program)

    def load(self, program: Program, binary: bytes) -> LoadedProgram:
        """Make a code object ready."""
        self._check_usable()
        return load_program(program, self._compiler.opened(program, binary), self.number)

    def build_log(self, program: Program) -> str:
        """What the compiler said when it last built the program here; empty before that."""
        return self._compiler.build_log(program)

    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> HipInvoker:
        """Make steps ready to run."""
        self._check_usable()
        return HipInvoker(self, steps, loaded)

    def library(self) -> RocBlas:
        """rocBLAS on this device's stream. Raises `BackendUnavailableError` where it is missing."""
        if self._library is None:
            checked(hip.hipSetDevice(self.number), "hipSetDevice", "opening rocBLAS")
            pool = self._pool  # this and not the device, which would keep itself alive
            self._library = RocBlas(
                self.stream, lambda size: HipBuffer(pool.take(size), size, pool)
            )
        return self._library

    def allocate(self, size: int) -> HipBuffer:
        """Return undefined memory from the pool."""
        self._check_usable()
        if size < 0:
            msg = f"size of a buffer: {size} bytes is not possible; allowed: 0 or more"
            raise DeviceError(msg)
        return HipBuffer(self._pool.take(size), size, self._pool)

    def upload(self, array: np.ndarray[Any, Any]) -> HipBuffer:
        """Return memory with a copy of an array."""
        buffer = self.allocate(array.nbytes)
        self.write(buffer, array)
        return buffer

    def wrap_output(self, array: np.ndarray[Any, Any]) -> HipBuffer | None:
        """Return None: kernels do not write into the host's memory."""
        self._check_usable()
        return None

    def write(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any]) -> None:
        """Copy an array into existing memory."""
        self._copy(buffer, array, hip.hipMemcpyKind.hipMemcpyHostToDevice)

    def read(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        """Copy memory into an array, after everything enqueued before."""
        self._copy(buffer, array, hip.hipMemcpyKind.hipMemcpyDeviceToHost, offset)

    def fill(self, buffer: DeviceBuffer, byte: int) -> None:
        """Set every byte of a buffer."""
        checked_buffer = self._buffer(buffer, 0)
        if buffer.size:
            checked(
                hip.hipMemsetAsync(checked_buffer.address, byte, buffer.size, self.stream),
                "hipMemsetAsync",
                f"fill of {buffer.size} bytes",
            )

    def adopt(self, tensor: object) -> HipBuffer | None:
        """Return the memory of a ROCm tensor with DLPack without a copy."""
        self._check_usable()
        return interop.adopt(tensor, self.number, self.stream, self._borrowed)

    def overlap(self, first: DeviceBuffer, second: DeviceBuffer) -> bool:
        """Compare addresses."""
        one, other = self._buffer(first, 0), self._buffer(second, 0)
        return one.address < other.address + other.size and other.address < one.address + one.size

    def synchronize(self) -> None:
        """Wait until everything enqueued has finished."""
        self._check_process()
        doing = f"waiting for {self.target.name}"
        checked(hip.hipStreamSynchronize(self.stream), "hipStreamSynchronize", doing)
        if self._borrowed is not None:
            self._borrowed.sweep()

    def close(self) -> None:
        """Wait for what is under way and release stream, library and the pool's memory."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        try:
            self.synchronize()
        finally:
            if self._library is not None:
                self._library.close()
            self._pool.close()
            if self._borrowed is not None:
                self._borrowed.close()
            if self._owned is not None:
                doing = f"closing {self.target.name}"
                checked(hip.hipStreamDestroy(self._owned), "hipStreamDestroy", doing)

    def _copy(
        self, buffer: DeviceBuffer, array: np.ndarray[Any, Any], kind: Any, offset: int = 0
    ) -> None:
        """Copy and wait: the host's memory is not pinned and may go away."""
        address = self._buffer(buffer, offset + array.nbytes).address + offset
        host = array.ctypes.data
        check_contiguous(array)
        if not array.nbytes:
            return
        reading = kind == hip.hipMemcpyKind.hipMemcpyDeviceToHost
        to, source = (host, address) if reading else (address, host)
        doing = f"{'read' if reading else 'write'} of {array.nbytes} bytes"
        copied = hip.hipMemcpyAsync(to, source, array.nbytes, kind, self.stream)
        checked(copied, "hipMemcpyAsync", doing)
        checked(hip.hipStreamSynchronize(self.stream), "hipStreamSynchronize", doing)

    def _buffer(self, buffer: DeviceBuffer, size: int) -> HipBuffer:
        """A buffer that can hold ``size`` bytes."""
        self._check_usable()
        if not isinstance(buffer, HipBuffer):
            msg = f"{type(buffer).__name__} is not a buffer of the hip backend"
            raise DeviceError(msg)
        if size > buffer.size:
            msg = f"array of {size} bytes does not fit a buffer of {buffer.size} bytes"
            raise DeviceError(msg)
        return buffer

    def _check_usable(self) -> None:
        self._check_process()
        if self._closed:
            msg = f"{self.target.name} is closed; open it again"
            raise DeviceError(msg)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            msg = (
                f"{self.target.name} was opened in process {self._process}, and HIP does not "
                "survive a fork; open it again in this process"
            )
            raise DeviceError(msg)
