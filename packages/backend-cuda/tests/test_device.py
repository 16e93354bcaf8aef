"""The device over a stand-in for the driver: memory, order of streams, captures, launches."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda.bindings.driver import CUresult
from cuda_standin import TARGET, StandinDriver

from convfind.errors import DeviceError, KernelBuildError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import Argument, BufferArg, Fill, Launch, LocalArg, f32, i32, i64
from convfind_backend_cuda.device import CudaDevice
from convfind_backend_cuda.queue import Queue

STREAM = 0x50
PROGRAM = Program(KernelSource("convfind", "kernel_include/convfind_kernel.h"))


def launch_of(
    *arguments: Argument, size: tuple[int, ...] = (256,), group: tuple[int, ...] = (64,)
) -> Launch:
    return Launch(KernelSpec(PROGRAM, "kernel"), arguments, size, group)


def invoker_of(device: CudaDevice, *launches: Launch) -> Any:
    loaded = {PROGRAM: device.load_code(PROGRAM, b"")}
    return device.invoker(launches, loaded)


def steps(driver: StandinDriver, *kinds: str) -> list[tuple[Any, ...]]:
    return [entry for entry in driver.journal if entry[0] in kinds]


def test_arrays_go_in_and_come_out(device: CudaDevice) -> None:
    array = np.arange(100, dtype=np.float32)
    buffer = device.upload(array)
    result = np.zeros(60, np.float32)
    device.read(buffer, result, offset=160)
    np.testing.assert_array_equal(result, array[40:])
    device.fill(buffer, 0)
    device.read(buffer, array)
    assert not array.any()


def test_a_failed_copy_names_call_size_and_status(
    driver: StandinDriver, device: CudaDevice
) -> None:
    driver.failing["cuMemcpyHtoDAsync"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match="write of 8 bytes: cuMemcpyHtoDAsync failed with CUDA_"):
        device.upload(np.zeros(2, np.float32))
    driver.failing["cuMemcpyHtoDAsync"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match="start a new process"):
        device.upload(np.zeros(2, np.float32))


def test_memory_that_returns_is_used_again(driver: StandinDriver, device: CudaDevice) -> None:
    first = device.allocate(5000).address
    assert device.allocate(5000).address == first
    assert len(steps(driver, "allocate")) == 1


def test_an_allocation_that_fails_is_tried_again_without_the_idle_memory(
    driver: StandinDriver, device: CudaDevice
) -> None:
    del (kept := [device.allocate(5000)])[:]
    assert kept == []
    driver.failing["cuMemAllocAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert device.allocate(50_000).size == 50_000
    assert [entry[0] for entry in steps(driver, "free", "wait for all", "allocate")] == [
        *("allocate", "free", "wait for all", "allocate"),
    ]


def test_a_kernel_gets_its_arguments_as_c_lays_them_out(
    driver: StandinDriver, device: CudaDevice
) -> None:
    got: list[bytes] = []
    driver.kernels["kernel"] = ((4, 8, 4, 8), got.append)
    buffer = device.allocate(1024)
    invoker = invoker_of(
        device,
        launch_of(i32(-3), BufferArg("x", 512), f32(0.5), i64(2**40), size=(64, 6), group=(32, 2)),
    )
    invoker(InvokeArgs(x=buffer))
    assert struct.unpack("<i4xQf4xq", got[0]) == (-3, buffer.address + 512, 0.5, 2**40)
    assert steps(driver, "launch") == [("launch", "kernel", (2, 3, 1, 32, 2, 1), 0, STREAM)]


def test_arguments_must_be_those_that_the_kernel_declares(
    driver: StandinDriver, device: CudaDevice
) -> None:
    driver.kernels["kernel"] = ((4, 8), lambda data: None)
    with pytest.raises(LaunchError, match=r"declares arguments of \(4, 8\) bytes and gets \(8,\)"):
        invoker_of(device, launch_of(i64(1)))


def test_a_kernel_that_is_missing_is_named(device: CudaDevice) -> None:
    with pytest.raises(LaunchError, match=r"kernel kernel of convfind/.*CUDA_ERROR_NOT_FOUND"):
        invoker_of(device, launch_of())


def test_local_memory_of_arguments_is_the_launchs(
    driver: StandinDriver, device: CudaDevice
) -> None:
    driver.kernels["kernel"] = ((4,), lambda data: None)
    invoker_of(device, launch_of(LocalArg(60_000), i32(1), LocalArg(40_000)))(InvokeArgs())
    assert list(driver.local_memory.values()) == [100_000]
    assert steps(driver, "launch")[0][3] == 100_000
    driver.failing["cuFuncSetAttribute"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError, match="300000 bytes of local memory"):
        invoker_of(device, launch_of(LocalArg(300_000), i32(1)))


@pytest.mark.parametrize(
    ("size", "group", "message"),
    [
        ((2**16, 64, 2**16), (1, 64, 1), "65536 work-groups along axis 2"),
        ((2**31,), (1,), "2147483648 work-groups along axis 0"),
        ((2048,), (2048,), "a group of 2048 is over"),
        ((100,), (64,), "not a multiple"),
    ],
)
def test_sizes_that_cuda_does_not_launch_are_refused(
    driver: StandinDriver,
    device: CudaDevice,
    size: tuple[int, ...],
    group: tuple[int, ...],
    message: str,
) -> None:
    driver.kernels["kernel"] = ((), lambda data: None)
    with pytest.raises(LaunchError, match=message):
        invoker_of(device, launch_of(size=size, group=group))


def test_a_launch_that_fails_names_kernel_and_status(
    driver: StandinDriver, device: CudaDevice
) -> None:
    driver.kernels["kernel"] = ((), lambda data: None)
    invoker = invoker_of(device, launch_of())
    driver.failing["cuLaunchKernelEx"] = CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(LaunchError, match=r"launch of kernel of .*LAUNCH_OUT_OF_RESOURCES; use sm"):
        invoker(InvokeArgs())


def test_a_thread_without_the_devices_context_launches_in_it(
    driver: StandinDriver, device: CudaDevice
) -> None:
    driver.kernels["kernel"] = ((), lambda data: seen.append(list(driver.contexts)))
    seen: list[list[int]] = []
    invoker = invoker_of(device, launch_of())
    driver.failing["cuLaunchKernelEx"] = CUresult.CUDA_ERROR_INVALID_CONTEXT
    before = list(driver.contexts)
    invoker(InvokeArgs())
    assert seen[0][-1] == 7000
    assert driver.contexts == before


def test_with_several_devices_every_call_is_in_the_context(driver: StandinDriver) -> None:
    driver.devices = 2
    driver.contexts.append(7001)  # another library's current device
    device = CudaDevice(TARGET, 0)
    seen: list[int] = []
    driver.kernels["kernel"] = ((), lambda data: seen.append(driver.contexts[-1]))
    invoker_of(device, launch_of())(InvokeArgs())
    assert seen == [7000]
    assert driver.contexts == [7001]
    device.close()


def test_steps_are_timed_and_stay_inside(device: CudaDevice) -> None:
    buffer = device.upload(np.ones(64, np.uint8))
    invoker = device.invoker([Fill("bias", 8, 8)], {})
    assert invoker.timed(InvokeArgs(bias=buffer)) == 0.25
    result = np.empty(64, np.uint8)
    device.read(buffer, result)
    np.testing.assert_array_equal(np.flatnonzero(result == 0), np.arange(8, 16))
    with pytest.raises(LaunchError, match="past the end"):
        device.invoker([Fill("bias", 510, 8)], {})(InvokeArgs(bias=buffer))
    with pytest.raises(LaunchError, match="use bias, which is missing"):
        invoker(InvokeArgs(y=buffer))
    assert device.invoker([], {}).timed(InvokeArgs()) == 0.0


def test_a_binary_that_the_driver_refuses_is_a_build_error(
    driver: StandinDriver, device: CudaDevice
) -> None:
    driver.failing["cuModuleLoadData"] = CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    with pytest.raises(KernelBuildError, match="NO_BINARY_FOR_GPU; compile the kernel"):
        device.load_code(PROGRAM, b"")


def test_a_queue_follows_its_caller_and_keeps_the_order(driver: StandinDriver) -> None:
    from convfind_backend_cuda.context import context_of

    current = [0x10]
    queue = Queue(context_of(0), 0)
    queue._ask = lambda number: current[0]
    assert queue.follow() == 0x10
    assert driver.journal == [("record", 0), ("wait", 0x10)]
    driver.journal.clear()
    assert queue.follow() == 0x10
    assert driver.journal == []
    current[0] = 0x20
    driver.capturing = {0x20}
    assert queue.follow() == 0x20
    assert queue.is_capturing
    driver.capturing = set()
    current[0] = 0x10
    queue.follow()
    assert driver.journal == [("record", 0x20), ("wait", 0x10)]


def captured(driver: StandinDriver, call: Callable[[], object]) -> None:
    driver.capturing.add(STREAM)
    try:
        call()
    finally:
        driver.capturing.clear()


def test_a_capture_takes_no_memory_and_frees_none(
    driver: StandinDriver, device: CudaDevice
) -> None:
    device._pool._max_idle = 0  # what returns is freed at once
    buffers = [device.allocate(4096)]
    with pytest.raises(DeviceError, match=r"while a CUDA graph is captured.*out= and workspace="):
        captured(driver, lambda: device.allocate(100))
    captured(driver, buffers.clear)
    assert steps(driver, "free") == []
    device.allocate(100)
    assert steps(driver, "free")[0] == ("free", STREAM)


def test_steps_may_be_captured(driver: StandinDriver, device: CudaDevice) -> None:
    driver.kernels["kernel"] = ((8,), lambda data: None)
    buffer = device.allocate(64)
    invoker = invoker_of(device, launch_of(BufferArg("x")))
    driver.journal.clear()
    captured(driver, lambda: invoker(InvokeArgs(x=buffer)))
    assert [entry[0] for entry in driver.journal] == ["launch"]


def test_a_closed_device_refuses_work(driver: StandinDriver, device: CudaDevice) -> None:
    device.close()
    with pytest.raises(DeviceError, match="is closed"):
        device.allocate(1)


def test_the_device_tells_other_libraries_its_stream(device: CudaDevice) -> None:
    assert device.__cuda_stream__() == (0, STREAM)
