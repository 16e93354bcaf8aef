"""Steps at addresses do what they do on buffers, over a stand-in for the driver."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cuda.bindings.driver import CUresult
from cuda_standin import StandinDriver

from convfind.errors import DeviceError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Fill, Launch, Step, i32
from convfind_backend_cuda.device import CudaDevice

PROGRAM = Program(KernelSource("convfind", "kernel_include/convfind_kernel.h"))
STEPS: list[Step] = [
    Fill("y", 8, 16),
    Launch(
        KernelSpec(PROGRAM, "kernel"),
        (i32(5), BufferArg("x", 32), BufferArg("w"), BufferArg("y")),
        *((64,), (64,)),
    ),
]
SIZES = {"x": 256, "y": 64}


@pytest.fixture
def seen(driver: StandinDriver) -> list[tuple[int, ...]]:
    """Give the arguments of every launch: a number, and three addresses."""
    launches: list[tuple[int, ...]] = []

    def kernel(data: bytes) -> None:
        launches.append(struct.unpack("<i4x3Q", data))

    driver.kernels["kernel"] = ((4, 8, 8, 8), kernel)
    return launches


def invoker_of(device: CudaDevice) -> Any:
    return device.invoker(STEPS, {PROGRAM: device.load_code(PROGRAM, b"")})


def addressed(device: CudaDevice, invoker: Any, w: Any) -> Callable[[Sequence[int]], None]:
    run = device.addressed(invoker, {"w": w}, SIZES)
    assert run is not None
    return run


def test_addresses_and_buffers_take_turns(
    driver: StandinDriver, device: CudaDevice, seen: list[tuple[int, ...]]
) -> None:
    x, w, other, y = (device.allocate(256) for _ in range(4))
    ones = np.full(64, 1, np.uint8)
    invoker = invoker_of(device)
    runs = [(one, addressed(device, invoker, one)) for one in (w, other)]
    for _ in range(2):
        for kept, run in runs:
            memory = ones.copy()
            run([4096, memory.ctypes.data])
            assert seen[-1] == (5, 4096 + 32, kept.address, memory.ctypes.data)
            assert memory.tolist() == [1] * 8 + [0] * 16 + [1] * 40
            invoker(InvokeArgs(x=x, w=w, y=y))
            assert seen[-1] == (5, x.address + 32, w.address, y.address)
    invoker(InvokeArgs(x=x, w=w, y=y))
    assert seen[-1] == (5, x.address + 32, w.address, y.address)


def test_work_goes_to_the_stream_of_the_moment(
    driver: StandinDriver, device: CudaDevice, seen: list[tuple[int, ...]]
) -> None:
    streams = [0x50]
    device.queue._ask = lambda number: streams[-1]
    memory = np.zeros(64, np.uint8)
    run = addressed(device, invoker_of(device), device.allocate(256))
    for stream in (0x50, 0x90, 0x90, 0x50):
        streams.append(stream)
        driver.journal.clear()
        run([4096, memory.ctypes.data])
        done = [entry for entry in driver.journal if entry[0] in ("fill", "launch")]
        assert [entry[-1] for entry in done] == [stream] * 2


def test_another_devices_context_is_left_as_it_was(
    driver: StandinDriver, device: CudaDevice, seen: list[tuple[int, ...]]
) -> None:
    run = addressed(device, invoker_of(device), device.allocate(256))
    device.queue.context.is_only = False
    try:
        before = list(driver.contexts)
        run([4096, np.zeros(64, np.uint8).ctypes.data])
        assert driver.contexts == before
    finally:
        device.queue.context.is_only = True
    assert len(seen) == 1


def test_a_launch_that_fails_is_told_and_the_next_one_runs(
    driver: StandinDriver, device: CudaDevice, seen: list[tuple[int, ...]]
) -> None:
    run = addressed(device, invoker_of(device), device.allocate(256))
    memory = np.zeros(64, np.uint8)
    driver.failing["cuLaunchKernelEx"] = CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(LaunchError, match="LAUNCH_OUT_OF_RESOURCES"):
        run([4096, memory.ctypes.data])
    run([8192, memory.ctypes.data])
    assert [one[1] for one in seen] == [8192 + 32]


def test_what_is_not_the_devices_own_is_refused(
    device: CudaDevice, seen: list[tuple[int, ...]]
) -> None:
    nothing: Any = object()
    with pytest.raises(DeviceError, match="object is not a buffer of the cuda backend"):
        device.addressed(invoker_of(device), {"w": nothing}, SIZES)
    with pytest.raises(LaunchError, match="the steps use w, which is missing"):
        device.addressed(invoker_of(device), {}, SIZES)
    assert device.addressed(nothing, {}, SIZES) is None
