"""`MockBackend`: a backend on host memory with a virtual clock, counters and faults on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convfind.backend_kit.launching import (
    LaunchLimits,
    check_end,
    check_entry,
    launch_name,
    loaded_program,
    scalar,
)
from convfind.backend_kit.memory import bytes_of
from convfind.backend_kit.selection import select
from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError, KernelBuildError, LaunchError
from convfind.runtime.backend import Backend, Device, InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import (
    Argument,
    BufferArg,
    Fill,
    Launch,
    LibraryGemm,
    LocalArg,
    ScalarArg,
    Step,
    TensorMapArg,
    memory_names,
)
from convfind.testing.mock_gemm import run_gemm
from convfind.testing.tensors import Bytes

#: Called like the kernel: bytes from the offset on for memory, a NumPy scalar for a number.
MockFunction = Callable[..., None]

MOCK_TARGET = Target(
    backend="mock",
    name="mock device",
    kind=DeviceKind.CPU,
    vendor="convfind",
    platform="mock",
    arch="mock",
    compute_units=4,
    driver="1.0",
    features=frozenset({"fp16", "fp64", "int8"}),
    local_memory=64 * 1024,
    global_memory=2**34,
    cache=2**20,
    max_work_group=1024,
    wave_size=16,
)


@dataclass(slots=True)
class MockCounters:
    """Number of calls of each operation."""

    compiles: int = 0
    loads: int = 0
    launches: int = 0
    fills: int = 0
    gemms: int = 0
    allocations: int = 0
    uploads: int = 0
    reads: int = 0


def _never(_: object) -> bool:
    return False


@dataclass(slots=True)
class MockFaults:
    """Injected faults: each predicate selects the programs or launches that fail."""

    build: Callable[[Program], bool] = _never
    load: Callable[[Program], bool] = _never
    launch: Callable[[Launch], bool] = _never
    result: Callable[[Launch], bool] = _never  # the launch's results become zero
    slowdown: float = 1.0  # factor by which launches take longer


class MockBuffer:
    """Host memory that plays the role of device memory."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: Bytes) -> None:
        self.data = data

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.data.size)


class MockDevice(Device):
    """A device that compiles nothing and runs Python functions in place of kernels.

    Two macros of a program have an effect: a launch takes ``MICROSECONDS`` on the virtual
    clock (1000 if undefined), and with ``BUILD_FAILS=1`` compilation fails. The
    library's matrix products are computed and take 1 ms.
    """

    def __init__(
        self,
        target: Target = MOCK_TARGET,
        functions: Mapping[str, MockFunction] | None = None,
        *,
        counters: MockCounters | None = None,
        faults: MockFaults | None = None,
    ) -> None:
        if functions is None:
            from convfind.testing.mock_functions import MOCK_FUNCTIONS

            functions = MOCK_FUNCTIONS
        self.target = target
        self.functions = dict(functions)
        self.counters = counters if counters is not None else MockCounters()
        self.faults = faults if faults is not None else MockFaults()
        self.clock_ms = 0.0
        self._lock = threading.Lock()
        self._closed = False

    def compile(self, program: Program) -> bytes:
        """Return bytes that depend only on the program and the target."""
        self._check_open()
        with self._lock:
            self.counters.compiles += 1
        if dict(program.defines).get("BUILD_FAILS") or self.faults.build(program):
            raise KernelBuildError(
                str(program.source), program.all_options, "mock.cl:1: error: told to fail"
            )
        return self._binary(program)

    def load(self, program: Program, binary: bytes) -> object:
        """Check that the binary belongs to the program."""
        self._check_open()
        self.counters.loads += 1
        if binary != self._binary(program) or self.faults.load(program):
            raise KernelBuildError(
                str(program.source), program.all_options, "error: the binary is of another program"
            )
        return program

    def invoker(self, steps: Sequence[Step], loaded: Mapping[Program, object]) -> MockInvoker:
        """Check entry points and sizes as a runtime would."""
        self._check_open()
        for step in steps:
            if isinstance(step, Launch):
                self._check_launch(step, loaded)
        memory_names(steps)
        return MockInvoker(self, tuple(steps))

    def allocate(self, size: int) -> MockBuffer:
        """Return memory full of garbage."""
        self._check_open()
        self.counters.allocations += 1
        if size < 0:
            raise DeviceError(f"allocation of {size} bytes is not possible; allowed: 0 or more")
        return MockBuffer(np.full(max(size, 1), 0xCD, np.uint8))

    def upload(self, array: np.ndarray[Any, Any]) -> MockBuffer:
        """Copy an array."""
        self._check_open()
        self.counters.uploads += 1
        return MockBuffer(bytes_of(array).copy())

    def wrap_output(self, array: np.ndarray[Any, Any]) -> MockBuffer | None:
        """Use the array's own memory."""
        self._check_open()
        return MockBuffer(bytes_of(array)) if array.flags.writeable else None

    def write(self, buffer: object, array: np.ndarray[Any, Any]) -> None:
        """Copy in."""
        data = bytes_of(array)
        self._region(buffer, 0, data.size)[...] = data

    def read(self, buffer: object, array: np.ndarray[Any, Any], offset: int = 0) -> None:
        """Copy out."""
        self.counters.reads += 1
        data = bytes_of(array)
        data[...] = self._region(buffer, offset, data.size)

    def fill(self, buffer: object, byte: int) -> None:
        """Set every byte."""
        self._check_open()
        _data(buffer)[...] = byte

    def adopt(self, tensor: object) -> MockBuffer | None:
        """Take a `MockBuffer` as it is."""
        self._check_open()
        return tensor if isinstance(tensor, MockBuffer) else None

    def overlap(self, first: object, second: object) -> bool:
        """Compare addresses."""
        return np.may_share_memory(_data(first), _data(second))

    def synchronize(self) -> None:
        """Do nothing: no work is ever pending."""
        self._check_open()

    def close(self) -> None:
        """Refuse work from now on."""
        self._closed = True

    def execute(self, step: Step, args: InvokeArgs) -> None:
        """Run one step and advance the clock."""
        self._check_open()
        if isinstance(step, Fill):
            self.counters.fills += 1
            memory = _memory(BufferArg(step.memory, step.offset), args, step.size)
            memory[: step.size] = 0
            return
        if isinstance(step, LibraryGemm):
            self.counters.gemms += 1
            places = [_memory(BufferArg(m.memory, m.offset), args) for m in step.matrices]
            run_gemm(step, *places)
            self.clock_ms += self.faults.slowdown
            return
        self.counters.launches += 1
        if self.faults.launch(step):
            raise LaunchError(f"launch of {step.kernel.entry} failed: told to fail")
        arguments = [_argument(argument, args) for argument in step.arguments]
        self._call(step, arguments)
        microseconds = float(dict(step.kernel.program.defines).get("MICROSECONDS", 1000))
        self.clock_ms += self.faults.slowdown * microseconds / 1000

    def _call(self, step: Launch, arguments: list[Any]) -> None:
        function = self.functions[step.kernel.entry]
        if not self.faults.result(step):
            function(*arguments)
            return
        before = [a.copy() if isinstance(a, np.ndarray) else None for a in arguments]
        function(*arguments)
        for old, new in zip(before, arguments, strict=True):
            if old is not None and not np.array_equal(old, new):
                new[...] = 0

    def _binary(self, program: Program) -> bytes:
        return f"mock binary {program.key(self.target.compiler)}".encode()

    def _region(self, buffer: object, offset: int, size: int) -> Bytes:
        self._check_open()
        data = _data(buffer)
        if offset < 0 or offset + size > data.size:
            raise DeviceError(f"bytes {offset} to {offset + size} of a buffer of {data.size} bytes")
        return data[offset : offset + size]

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError(f"{self.target.name} is closed")

    def _check_launch(self, launch: Launch, loaded: Mapping[Program, object]) -> None:
        loaded_program(launch.kernel, loaded, Program)
        check_entry(launch.kernel, self.functions)
        limits = LaunchLimits(self.target.max_work_group, local_memory=self.target.local_memory)
        limits.check(launch)
        for index, argument in enumerate(launch.arguments):
            if isinstance(argument, ScalarArg):
                scalar(launch_name(launch.kernel), index, argument)


class MockInvoker:
    """Steps bound to a mock device."""

    def __init__(self, device: MockDevice, steps: tuple[Step, ...]) -> None:
        self._device = device
        self._steps = steps

    def __call__(self, args: InvokeArgs) -> None:
        """Run the steps."""
        for step in self._steps:
            self._device.execute(step, args)

    def timed(self, args: InvokeArgs) -> float:
        """Run the steps and return virtual milliseconds."""
        start = self._device.clock_ms
        self(args)
        return self._device.clock_ms - start


@dataclass(eq=False)
class MockBackend(Backend):
    """A runtime of mock devices, which share its functions, counters and faults."""

    name = "mock"

    devices: Iterable[Target] = (MOCK_TARGET,)
    functions: Mapping[str, MockFunction] | None = None
    counters: MockCounters = field(default_factory=MockCounters)
    faults: MockFaults = field(default_factory=MockFaults)

    def targets(self) -> tuple[Target, ...]:
        """Return the targets given."""
        return tuple(self.devices)

    def open(self, selector: str = "") -> MockDevice:
        """Open a device by number, kind or a part of its name."""
        target = self.targets()[select(self.name, selector, self.targets())]
        return MockDevice(target, self.functions, counters=self.counters, faults=self.faults)


def _data(buffer: object) -> Bytes:
    if not isinstance(buffer, MockBuffer):
        raise DeviceError(f"{type(buffer).__name__} is not memory of a mock device")
    return buffer.data


def _memory(argument: BufferArg, args: InvokeArgs, size: int = 1) -> Bytes:
    """Memory from an argument's offset on, ``size`` bytes at least."""
    buffer = getattr(args, argument.memory, None)
    if buffer is None:
        raise LaunchError(f"no memory given for {argument.memory}")
    if not isinstance(buffer, MockBuffer):
        kind = type(buffer).__name__
        raise LaunchError(f"{argument.memory} is a {kind}, not memory of a mock device")
    check_end("a step", argument.memory, argument.offset + size, buffer.size)
    return buffer.data[argument.offset :]


def _argument(argument: Argument, args: InvokeArgs) -> object:
    if isinstance(argument, BufferArg):
        return _memory(argument, args)
    if isinstance(argument, LocalArg):
        return np.zeros(argument.size, np.uint8)
    if isinstance(argument, TensorMapArg):
        raise LaunchError("a mock device has no tensor maps")
    return np.dtype(argument.kind).type(argument.value)
