"""The contract of a backend: the operations that core needs from OpenCL, HIP or another runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import RLock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from convfind.device.kernel_figures import KernelFigures
from convfind.device.target import Target
from convfind.errors import DeviceError
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind.solver.recipe import Step
from convfind.types import Layout


@runtime_checkable
class DeviceBuffer(Protocol):
    """Memory that a device can use. Released when the last reference is dropped."""

    @property
    def size(self) -> int:
        """Bytes."""


@dataclass(frozen=True, slots=True)
class TensorForm:
    """Memory layout of a tensor: axis sizes, strides in elements, name of the type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    axes: Layout | None = None  # whose order the axes have; None where nobody has said

    @property
    def is_dense(self) -> bool:
        """True if the elements fill their memory in some order of the axes."""
        expected = 1
        for step, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size == 1:
                continue
            if step != expected:
                return 0 in self.shape
            expected *= size
        return True


@runtime_checkable
class SharedBuffer(DeviceBuffer, Protocol):
    """Memory that other libraries may use in place, through `DeviceTensor`."""

    def dlpack_device(self) -> tuple[int, int]:
        """Return DLPack's kind of device and the number. Raises `BufferError`."""

    def dlpack(self, form: TensorForm, stream: int | None) -> object:
        """Return a DLPack capsule of a tensor that keeps the memory alive.

        ``stream`` is the consumer's, as in the array API. Raises `BufferError`.
        """


class InvokeArgs(SimpleNamespace):
    """The memory of one run: buffers by name, as the steps name them, ``InvokeArgs(x=..., y=...)``.

    Buffers that the steps do not name may be left out or be None.
    """

    if TYPE_CHECKING:

        def __init__(self, **buffers: DeviceBuffer | None) -> None: ...


class Invoker(Protocol):
    """Steps prepared for a device; may be called repeatedly, from one thread at a time.

    A call enqueues and returns: no look-up, no hook, no allocation, no lock.
    """

    def __call__(self, args: InvokeArgs) -> None:
        """Enqueue the steps in order on the device's queue."""

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps, wait, and return device time in ms, from first start to last end."""


@runtime_checkable
class StepwiseInvoker(Invoker, Protocol):
    """An invoker of a runtime that can tell the time of each step within one run."""

    def step_times(self, args: InvokeArgs) -> Sequence[float]:
        """Run the steps in a row, wait, and return the device time of each in ms.

        Steps that fill nothing are left out.
        """


class Device(ABC):
    """An opened device with one in-order queue. Methods raise `DeviceError` or `LaunchError`.

    A buffer may be dropped while commands use it: the device keeps the memory, also that of an
    array used in place or of another library's tensor, until they have finished.
    """

    target: Target
    #: Whether its compiler takes one program after the other in a process, whoever asks for them.
    compiles_in_turn: bool = False
    #: Steps may use memory from multiples of so many bytes on: OpenCL's views are no nearer.
    step_alignment: int = 128
    #: Held by whoever prepares memory, enqueues and waits, so that threads take turns.
    lock: RLock

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Make a device with its lock, whatever its own constructor does."""
        device = super().__new__(cls)
        device.lock = RLock()
        return device

    @abstractmethod
    def compile(self, program: Program) -> bytes:
        """Compile to a binary that `load` accepts, here or in another process on the same target.

        Safe to call from several threads at once. Raises `KernelBuildError` with the log.
        """

    @abstractmethod
    def load(self, program: Program, binary: bytes) -> object:
        """Load a binary. Raises `KernelBuildError` if the runtime refuses it."""

    @abstractmethod
    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> Invoker:
        """Prepare steps. Raises `LaunchError` if entry point, sizes or arguments do not fit."""

    def replayed(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> Invoker:
        """Prepare steps that run over and over, such as a network's; as `invoker` does.

        A runtime that can replay what it has recorded, as CUDA can, does so where memory stays the
        same from run to run.
        """
        return self.invoker(steps, loaded)

    def addressed(
        self, invoker: Invoker, fixed: Mapping[str, DeviceBuffer], sizes: Mapping[str, int]
    ) -> Callable[[Sequence[int]], None] | None:
        """Return what runs an invoker's steps on memory by its addresses.

        On a CPU that is the host's memory, and a call waits. On a GPU it is the device's, and a
        call enqueues. None where kernels need buffers. Callers hold `lock`, as for an invoker.
        It has an attribute ``is_local``, which is True, where the calling thread computes alone.

        Args:
            invoker: what `invoker` or `replayed` of this device returned.
            fixed: memory that is the same in every call, by name.
            sizes: bytes at each address of a call, by name. Calls give addresses in this order,
                each a multiple of 64 on a CPU and of 16 on a GPU. That memory has to stay until
                the steps have finished.

        Raises:
            LaunchError: the steps use memory of another name, or more of it.
        """
        return None

    @abstractmethod
    def allocate(self, size: int) -> DeviceBuffer:
        """Return uninitialised memory of at least ``size`` bytes, from a pool if there is one."""

    @abstractmethod
    def upload(self, array: np.ndarray[Any, Any]) -> DeviceBuffer:
        """Return memory with the contents of a C-contiguous array.

        If the device shares the host's memory this may be the array's own memory: the caller
        must not change the array until the kernels that read it have finished. `allocate` and
        `write` make a copy.
        """

    @abstractmethod
    def wrap_output(self, array: np.ndarray[Any, Any]) -> DeviceBuffer | None:
        """Return a C-contiguous array's memory if kernels can write into it, otherwise None."""

    @abstractmethod
    def write(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any]) -> None:
        """Copy a C-contiguous array into existing memory."""

    @abstractmethod
    def read(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        """Copy memory, from a byte offset, to a C-contiguous array, after all enqueued work."""

    def seen(self, buffer: DeviceBuffer) -> AbstractContextManager[np.ndarray[Any, Any]] | None:
        """Return the bytes of memory where the host sees them, after all enqueued work.

        They are there while the context lasts, in which nothing may be enqueued that writes them.
        None where memory has to be read.
        """
        return None

    @property
    def has_parts(self) -> bool:
        """Whether buffers may be parts of others, from multiples of 128 bytes on."""
        return False

    def part(self, buffer: DeviceBuffer, offset: int, size: int) -> DeviceBuffer:
        """Return so many bytes of memory, from an offset on, as a buffer that keeps the memory.

        Raises `DeviceError` where the device ``has_parts`` not, or none from there on.
        """
        msg = f"a part of a buffer is not possible on {self.target.name}"
        raise DeviceError(msg)

    @abstractmethod
    def fill(self, buffer: DeviceBuffer, byte: int) -> None:
        """Set every byte of a buffer."""

    @abstractmethod
    def adopt(self, tensor: object) -> DeviceBuffer | None:
        """Return the memory of the runtime's own tensor objects without a copy; None if foreign.

        A buffer may have a `TensorForm` as its ``form``, which must match the problem. A
        ``read_only`` buffer is refused as a result.
        """

    def overlap(self, first: DeviceBuffer, second: DeviceBuffer) -> bool:
        """Return whether two buffers have a byte of memory in common."""
        return first is second

    def check_usable(self) -> None:  # noqa: B027  # a device that never ends is always usable
        """Raise `DeviceError` where the device is closed, or was opened by another process."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything enqueued has finished."""

    @abstractmethod
    def close(self) -> None:
        """Release the device's resources. Calling it again does nothing."""


class AheadCompiler(Protocol):
    """Compiles programs for a device that need not be here."""

    @property
    def target(self) -> Target:
        """The device."""

    def compile(self, program: Program) -> bytes:
        """Compile to a binary as the device's cache has it. Raises `KernelBuildError`."""

    def figures(self, program: Program, binary: bytes) -> Sequence[KernelFigures]:
        """Return what is known of each kernel in a binary that was compiled just now."""


class Backend(ABC):
    """A runtime. Constructing one is cheap and touches no device."""

    #: The word before the colon in a device name such as ``opencl:0``.
    name: ClassVar[str]
    #: Languages of the kernels that its devices compile; empty for a runtime that has a library
    #: of matrix products and no compiler.
    languages: ClassVar[tuple[KernelLanguage, ...]] = (KernelLanguage.SHARED,)

    @abstractmethod
    def targets(self) -> tuple[Target, ...]:
        """Return every device, best first.

        Raises `BackendUnavailableError`, which says what to install.
        """

    @abstractmethod
    def open(self, selector: str = "") -> Device:
        """Open a device by number, kind (``cpu``, ``gpu``) or a part of vendor, name or platform.

        The empty selector means the best device. Raises `DeviceError`, which lists the devices.
        """

    def compiler_for(self, arch: str, compute_units: int | None = None) -> AheadCompiler | None:
        """Return the compiler for a device that is not here; None where ``arch`` names none.

        Args:
            arch: the architecture as `Target.arch` names it, such as sm_90 or gfx942.
            compute_units: of the device, if they are not those of a usual one.

        Raises `BackendUnavailableError` where the compiler itself is missing.
        """
        return None
