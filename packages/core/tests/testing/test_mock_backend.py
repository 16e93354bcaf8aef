"""The mock backend keeps the backend contract, counts, and fails on demand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convfind.device.target import DeviceKind
from convfind.errors import DeviceError, KernelBuildError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Fill, Launch, LocalArg, Memory, Step, f32, i32
from convfind.testing import MOCK_TARGET, MockBackend, MockBuffer, MockDevice
from convfind.testing.tensors import Bytes

SOURCE = KernelSource("convfind.testing", "kernels/mock.cl")


def add(x: Bytes, y: Bytes, number: np.int32) -> None:
    """y = x + number, byte by byte."""
    y[:4] = x[:4] + np.uint8(number)


def launch(entry: str = "add", **defines: int) -> Launch:
    """A launch of `add`."""
    program = Program(SOURCE, defines=make_defines(defines))
    arguments = (BufferArg(Memory.X), BufferArg(Memory.Y), i32(3))
    return Launch(KernelSpec(program, entry), arguments, (4,), (2,))


def run(device: MockDevice, *steps: Step, args: InvokeArgs | None = None) -> tuple[Bytes, float]:
    """Compile, load and run; return y and the virtual time."""
    launches = [step for step in steps if isinstance(step, Launch)]
    loaded: dict[Program, object] = {}
    for program in (each.kernel.program for each in launches):
        loaded[program] = device.load(program, device.compile(program))
    y = np.zeros(4, np.uint8)
    args = args or InvokeArgs(
        x=device.upload(np.arange(4, dtype=np.uint8)), y=device.wrap_output(y)
    )
    return y, device.invoker(steps, loaded).timed(args)


@pytest.fixture
def device() -> MockDevice:
    """A device with one kernel."""
    return MockBackend(functions={"add": add}).open()


def test_a_launch_runs_its_function_and_advances_the_clock(device: MockDevice) -> None:
    y, ms = run(device, launch(MICROSECONDS=250))
    assert y.tolist() == [3, 4, 5, 6]
    assert ms == 0.25
    assert device.clock_ms == 0.25
    assert (device.counters.compiles, device.counters.loads, device.counters.launches) == (1, 1, 1)


def test_slowdown_stretches_the_clock(device: MockDevice) -> None:
    device.faults.slowdown = 4.0
    assert run(device, launch(MICROSECONDS=100))[1] == pytest.approx(0.4)


def test_fill_zeroes_its_region_only(device: MockDevice) -> None:
    buffer = device.upload(np.full(8, 7, np.uint8))
    run(device, Fill(Memory.Y, 2, 3), args=InvokeArgs(y=buffer))
    seen = np.empty(8, np.uint8)
    device.read(buffer, seen)
    assert seen.tolist() == [7, 7, 0, 0, 0, 7, 7, 7]


def test_offsets_and_local_memory_reach_the_function() -> None:
    seen: list[object] = []
    device = MockDevice(functions={"look": lambda *arguments: seen.extend(arguments)})
    step = replace(launch("look"), arguments=(BufferArg(Memory.X, 2), LocalArg(16), f32(0.5)))
    run(device, step, args=InvokeArgs(x=device.upload(np.arange(4, dtype=np.uint8))))
    memory, local, number = seen
    assert isinstance(memory, np.ndarray)
    assert memory.tolist() == [2, 3]
    assert isinstance(local, np.ndarray)
    assert local.size == 16
    assert isinstance(number, np.float32)


def test_binaries_are_deterministic_and_belong_to_one_program(device: MockDevice) -> None:
    one, other = launch(A=1).kernel.program, launch(A=2).kernel.program
    assert device.compile(one) == device.compile(one)
    assert device.compile(one) != device.compile(other)
    with pytest.raises(KernelBuildError, match="another program"):
        device.load(one, device.compile(other))


def test_builds_fail_by_macro_and_by_fault(device: MockDevice) -> None:
    with pytest.raises(KernelBuildError, match="told to fail"):
        device.compile(launch(BUILD_FAILS=1).kernel.program)
    device.faults.build = lambda program: dict(program.defines).get("A") == 2
    device.compile(launch(A=1).kernel.program)
    with pytest.raises(KernelBuildError, match="-DA=2"):
        device.compile(launch(A=2).kernel.program)


def test_launches_fail_by_fault(device: MockDevice) -> None:
    device.faults.launch = lambda step: step.kernel.entry == "add"
    with pytest.raises(LaunchError, match="launch of add failed"):
        run(device, launch())


def test_results_are_spoilt_by_fault(device: MockDevice) -> None:
    device.faults.result = lambda step: True
    assert run(device, launch())[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            replace(launch(), kernel=replace(launch().kernel, entry="sub")),
            "no kernel 'sub'",
        ),
        (replace(launch(), local_size=(3,)), "not a multiple"),
        (replace(launch(), local_size=(2, 1)), "same number of dimensions"),
        (
            replace(launch(), global_size=(2048,), local_size=(2048,)),
            "limit of 1024",
        ),
    ],
)
def test_impossible_launches_are_refused(device: MockDevice, step: Launch, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        run(device, step)


def test_programs_must_be_loaded(device: MockDevice) -> None:
    with pytest.raises(LaunchError, match="not loaded"):
        device.invoker([launch()], {})


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (InvokeArgs(), "no memory given for x"),
        (InvokeArgs(x=MockBuffer(np.zeros(4, np.uint8))), "no memory given for y"),
    ],
)
def test_missing_memory_is_refused(device: MockDevice, args: InvokeArgs, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        run(device, launch(), args=args)


def test_memory_has_any_name(device: MockDevice) -> None:
    buffer = device.upload(np.full(4, 7, np.uint8))
    run(device, Fill("bias", 1, 2), args=InvokeArgs(bias=buffer))
    assert buffer.data.tolist() == [7, 0, 0, 7]
    with pytest.raises(LaunchError, match="no memory given for bias"):
        run(device, Fill("bias", 1, 2), args=InvokeArgs(y=buffer))
    with pytest.raises(LaunchError, match="letters, digits"):
        run(device, Fill("layer.weight", 1, 2), args=InvokeArgs(y=buffer))


def test_memory_moves_both_ways(device: MockDevice) -> None:
    buffer = device.allocate(6)
    device.fill(buffer, 9)
    device.write(buffer, np.array([[1, 2]], np.int16))
    seen = np.empty(6, np.uint8)
    device.read(buffer, seen)
    assert seen.tolist() == [1, 0, 2, 0, 9, 9]
    assert device.counters.allocations == 1
    assert device.adopt(buffer) is buffer
    assert device.adopt(seen) is None
    with pytest.raises(DeviceError, match="C-contiguous"):
        device.upload(np.zeros((4, 4), np.uint8).T[1:])


def test_allocated_memory_is_not_clean(device: MockDevice) -> None:
    seen = np.zeros(4, np.uint8)
    device.read(device.allocate(4), seen)
    assert seen.all()


def test_a_closed_device_refuses_work(device: MockDevice) -> None:
    device.close()
    device.close()
    with pytest.raises(DeviceError, match="is closed"):
        device.allocate(4)


def test_devices_open_by_number_kind_and_name() -> None:
    gpu = replace(MOCK_TARGET, identity="", name="mock gpu", kind=DeviceKind.GPU)
    backend = MockBackend(devices=(MOCK_TARGET, gpu))
    assert backend.targets() == (MOCK_TARGET, gpu)
    for selector in ("", "0", "cpu", "device"):
        assert backend.open(selector).target is MOCK_TARGET
    for selector in ("1", "gpu", "GPU", "mock gpu"):
        assert backend.open(selector).target is gpu
    assert backend.open("0").counters is backend.open("1").counters
    with pytest.raises(DeviceError, match=r"0: mock device .*; 1: mock gpu "):
        backend.open("tpu")
