"""`QueueDevice`: a device with one in-order queue, whose arguments and state are checked."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from convfind.backend_kit.compiler import ProgramCompiler
from convfind.backend_kit.memory import KeptBuffer, bytes_of, overlap
from convfind.backend_kit.pool import BufferPool
from convfind.device.target import Target
from convfind.errors import DeviceError
from convfind.runtime.backend import Device, DeviceBuffer, Invoker
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
BufferT = TypeVar("BufferT", bound=KeptBuffer[Any])


class QueueDevice(Device, Generic[BufferT]):
    """An opened device with one in-order queue, a compiler and a pool of memory.

    It checks arguments and refuses work when it is closed or in a child process: no runtime's
    threads survive a fork. Subclasses do the work, in the methods that are abstract here.
    """

    #: Name of the runtime in messages, such as OpenCL.
    runtime: ClassVar[str]
    #: The class of its buffers.
    buffer_type: type[BufferT]

    def __init__(self, target: Target, compiler: ProgramCompiler, pool: BufferPool[Any]) -> None:
        self.target = target
        self._compiler = compiler
        self._pool = pool
        self._process = os.getpid()
        self._closed = False

    # -- what a runtime does ------------------------------------------------------------------

    @abstractmethod
    def load_code(self, program: Program, code: bytes) -> object:
        """Load code that `ProgramCompiler.build` returned. Raises `KernelBuildError`."""

    @abstractmethod
    def prepare(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> Invoker:
        """Prepare steps. Raises `LaunchError`."""

    @abstractmethod
    def copy_in(self, buffer: BufferT, data: Bytes) -> None:
        """Copy one byte or more from the host, and wait."""

    @abstractmethod
    def copy_out(self, data: Bytes, buffer: BufferT, offset: int) -> None:
        """Copy one byte or more to the host, after all enqueued work, and wait."""

    @abstractmethod
    def set_bytes(self, buffer: BufferT, byte: int) -> None:
        """Set every byte of a buffer that is not empty."""

    @abstractmethod
    def adopt_tensor(self, tensor: object) -> BufferT | None:
        """Return the memory of another library's tensor without a copy; None if foreign."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until everything enqueued has finished."""

    def release(self) -> None:
        """Release what the device holds beside the pool. Called once, with an idle queue."""

    # -- the contract -------------------------------------------------------------------------

    def compile(self, program: Program) -> bytes:
        """Compile to a sealed binary."""
        self.check_usable()
        return self._compiler.compile(program)

    def load(self, program: Program, binary: bytes) -> object:
        """Load a binary whose seal is unbroken."""
        self.check_usable()
        return self.load_code(program, self._compiler.opened(program, binary))

    def build_log(self, program: Program) -> str:
        """Return the compiler's words about a program built here: registers, register spills."""
        return self._compiler.build_log(program)

    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> Invoker:
        """Prepare steps."""
        self.check_usable()
        return self.prepare(steps, loaded)

    def allocate(self, size: int) -> BufferT:
        """Return uninitialised memory from the pool."""
        self.check_usable()
        if size < 0:
            msg = f"size of a buffer: {size} bytes is not possible; allowed: 0 or more"
            raise DeviceError(msg)
        return self.buffer_type(self._pool.take(size), size, self._pool)

    def upload(self, array: np.ndarray[Any, Any]) -> BufferT:
        """Return memory with a copy of an array."""
        buffer = self.allocate(array.nbytes)
        self.write(buffer, array)
        return buffer

    def wrap_output(self, array: np.ndarray[Any, Any]) -> BufferT | None:
        """Return None: kernels do not write into the host's memory."""
        self.check_usable()
        return None

    def write(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any]) -> None:
        """Copy an array into existing memory."""
        own, data = self._own(buffer, writing=True), bytes_of(array)
        check_fits(own, 0, data.size)
        if data.size:
            self.copy_in(own, data)

    def read(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        """Copy memory into an array, after everything enqueued before."""
        own, data = self._own(buffer), bytes_of(array)
        check_fits(own, offset, data.size)
        if data.size:
            self.copy_out(data, own, offset)

    def fill(self, buffer: DeviceBuffer, byte: int) -> None:
        """Set every byte of a buffer."""
        own = self._own(buffer, writing=True)
        if not 0 <= byte <= 255:
            msg = f"fill with {byte} is not possible; allowed: a byte, 0 to 255"
            raise DeviceError(msg)
        if own.size:
            self.set_bytes(own, byte)

    def adopt(self, tensor: object) -> BufferT | None:
        """Return the memory of another library's tensor without a copy; None if foreign."""
        self.check_usable()
        return self.adopt_tensor(tensor)

    def overlap(self, first: DeviceBuffer, second: DeviceBuffer) -> bool:
        """Return whether two buffers have a byte in common, views of one memory included."""
        self.check_usable()
        return overlap(self._checked(first), self._checked(second))

    def synchronize(self) -> None:
        """Wait until everything enqueued has finished."""
        self.check_usable()
        self.finish()

    def close(self) -> None:
        """Wait for what is under way, and release everything. A child process releases nothing."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        try:
            self.finish()
        finally:
            self._pool.close()
            self.release()

    def check_usable(self) -> None:
        """Refuse work on a closed device, and in a child process. Raises `DeviceError`."""
        if os.getpid() != self._process:
            msg = (
                f"{self.target.name} was opened in process {self._process}, and {self.runtime} "
                "does not survive a fork; open it again in this process"
            )
            raise DeviceError(msg)
        if self._closed:
            msg = f"{self.target.name} is closed; open it again"
            raise DeviceError(msg)

    def _own(self, buffer: DeviceBuffer, *, writing: bool = False) -> BufferT:
        self.check_usable()
        own = self._checked(buffer)
        if writing and own.read_only:
            msg = "buffer is the memory of an uploaded array and read-only; allocate another"
            raise DeviceError(msg)
        return own

    def _checked(self, buffer: DeviceBuffer) -> BufferT:
        if not isinstance(buffer, self.buffer_type):
            msg = f"{type(buffer).__name__} is not a buffer of the {self.target.backend} backend"
            raise DeviceError(msg)
        return buffer


def check_fits(buffer: KeptBuffer[Any], offset: int, size: int) -> None:
    """Raise `DeviceError` where a buffer has no such bytes."""
    if offset < 0:
        msg = f"byte {offset} of a buffer is not possible; allowed: 0 or more"
        raise DeviceError(msg)
    if offset + size > buffer.size:
        msg = f"array of {offset + size} bytes does not fit a buffer of {buffer.size} bytes"
        raise DeviceError(msg)
