"""`HipDevice`: an opened device, its stream, compiler and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hip import hip

from convfind.backend_kit.borrowed import Borrowed
from convfind.backend_kit.device import Bytes, QueueDevice
from convfind.backend_kit.pointed import Point
from convfind.backend_kit.pool import most_idle
from convfind.device.target import Target
from convfind.runtime.backend import DeviceBuffer, Invoker
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind_backend_hip import interop
from convfind_backend_hip.compiler import Compiler
from convfind_backend_hip.errors import checked
from convfind_backend_hip.invoker import HipInvoker
from convfind_backend_hip.memory import HipBuffer, HipPool
from convfind_backend_hip.module import LoadedProgram, load_program
from convfind_backend_hip.rocblas import RocBlas
from convfind_backend_hip.stream import Event


class HipDevice(QueueDevice[HipBuffer]):
    """An opened HIP device with one stream.

    It does not survive a fork: the runtime's threads stay behind. A child process opens its own.
    """

    runtime = "HIP"
    buffer_type = HipBuffer

    def __init__(
        self, target: Target, number: int, stream: int, *, owned: object | None = None
    ) -> None:
        pool = HipPool(target, number, stream, most_idle(target))
        super().__init__(target, Compiler(target), pool)
        self.number = number
        #: Address of the stream that everything runs in.
        self.stream = stream
        self._owned = owned  # the stream, where it is this device's to destroy
        # The caller's own stream comes before what its library does next with the memory.
        self._borrowed = None if owned is None else Borrowed(stream, Event)
        self._library: RocBlas | None = None

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

    def load_code(self, program: Program, code: bytes) -> LoadedProgram:
        """Make a code object ready."""
        return load_program(program, code, self.number)

    def prepare(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> HipInvoker:
        """Make steps ready to run."""
        return HipInvoker(self, steps, loaded)

    def addressed(
        self, invoker: Invoker, fixed: Mapping[str, DeviceBuffer], sizes: Mapping[str, int]
    ) -> Point | None:
        """Return what enqueues steps on the device's memory by its addresses."""
        self.check_usable()
        if not isinstance(invoker, HipInvoker):
            return None
        return invoker.addressed({name: self._own(one) for name, one in fixed.items()}, sizes)

    def library(self) -> RocBlas:
        """rocBLAS on this device's stream. Raises `BackendUnavailableError` where it is missing."""
        if self._library is None:
            checked(hip.hipSetDevice(self.number), "hipSetDevice", "opening rocBLAS")
            pool = self._pool  # this and not the device, which would keep itself alive
            self._library = RocBlas(
                self.stream, lambda size: HipBuffer(pool.take(size), size, pool)
            )
        return self._library

    def copy_in(self, buffer: HipBuffer, data: Bytes) -> None:
        """Copy from the host."""
        kind, doing = hip.hipMemcpyKind.hipMemcpyHostToDevice, f"write of {data.size} bytes"
        self._copy(buffer.address, data.ctypes.data, data.size, kind, doing)

    def copy_out(self, data: Bytes, buffer: HipBuffer, offset: int) -> None:
        """Copy to the host."""
        kind, doing = hip.hipMemcpyKind.hipMemcpyDeviceToHost, f"read of {data.size} bytes"
        self._copy(data.ctypes.data, buffer.address + offset, data.size, kind, doing)

    def set_bytes(self, buffer: HipBuffer, byte: int) -> None:
        """Fill a buffer."""
        filled = hip.hipMemsetAsync(buffer.address, byte, buffer.size, self.stream)
        checked(filled, "hipMemsetAsync", f"fill of {buffer.size} bytes")

    def adopt_tensor(self, tensor: object) -> HipBuffer | None:
        """Return the memory of a ROCm tensor with DLPack without a copy."""
        return interop.adopt(tensor, self.number, self.stream, self._borrowed)

    def finish(self) -> None:
        """Wait for the stream."""
        doing = f"waiting for {self.target.name}"
        checked(hip.hipStreamSynchronize(self.stream), "hipStreamSynchronize", doing)
        if self._borrowed is not None:
            self._borrowed.sweep()

    def release(self) -> None:
        """Release library, other libraries' tensors and stream."""
        if self._library is not None:
            self._library.close()
        if self._borrowed is not None:
            self._borrowed.close()
        if self._owned is not None:
            doing = f"closing {self.target.name}"
            checked(hip.hipStreamDestroy(self._owned), "hipStreamDestroy", doing)

    def _copy(self, to: int, source: int, size: int, kind: object, doing: str) -> None:
        """Copy and wait: the host's memory is not pinned and may go away."""
        checked(hip.hipMemcpyAsync(to, source, size, kind, self.stream), "hipMemcpyAsync", doing)
        checked(hip.hipStreamSynchronize(self.stream), "hipStreamSynchronize", doing)
