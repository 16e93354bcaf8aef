"""Steps that become one CUDA graph, over a stand-in for the driver: when, where, and when not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda.bindings.driver import CUresult
from cuda_standin import TARGET, StandinDriver

from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import Fill
from convfind_backend_cuda.device import CudaDevice
from convfind_backend_cuda.graph import Graph
from convfind_backend_cuda.memory import CudaBuffer

STREAM = 0x50
#: Steps that set eight bytes each, so that the memory tells which of them ran.
STEPS = [Fill("arena", at, 8) for at in range(0, 32, 8)] + [Fill("output0", 0, 8)]


def ones(device: CudaDevice, size: int = 64) -> CudaBuffer:
    buffer = device.upload(np.ones(size, np.uint8))
    assert isinstance(buffer, CudaBuffer)
    return buffer


def zeros_in(device: CudaDevice, buffer: CudaBuffer) -> int:
    result = np.empty(buffer.size, np.uint8)
    device.read(buffer, result)
    return int((result == 0).sum())


def kinds(driver: StandinDriver, call: Callable[[], object]) -> list[Any]:
    """Return what a call enqueues, and where."""
    driver.journal.clear()
    call()
    return [(kind, where) for kind, *_, where in filter(lambda e: len(e) > 1, driver.journal)]


def test_steps_are_recorded_when_they_meet_their_memory_again(
    driver: StandinDriver, device: CudaDevice
) -> None:
    invoker = device.replayed(STEPS, {})
    args = InvokeArgs(arena=ones(device), output0=ones(device))
    one_by_one = [("fill", STREAM)] * 5
    assert kinds(driver, lambda: invoker(args)) == one_by_one
    assert kinds(driver, lambda: invoker(args)) == [("replay", STREAM), *one_by_one]
    device.fill(args.output0, 1)
    assert kinds(driver, lambda: invoker(args)) == [("replay", STREAM), *one_by_one]
    assert zeros_in(device, args.arena) == 32
    assert zeros_in(device, args.output0) == 8


def test_other_memory_gets_a_graph_of_its_own(driver: StandinDriver, device: CudaDevice) -> None:
    invoker, arena = device.replayed(STEPS, {}), ones(device)
    first, second = (InvokeArgs(arena=arena, output0=ones(device)) for _ in range(2))
    for args in (first, second, first, second):
        invoker(args)
    for args in (first, second):
        device.fill(args.output0, 1)
    kinds(driver, lambda: invoker(second))
    assert driver.journal[0] == ("replay", STREAM)
    assert (zeros_in(device, first.output0), zeros_in(device, second.output0)) == (0, 8)


def test_memory_that_changes_too_often_is_recorded_no_more(
    driver: StandinDriver, device: CudaDevice
) -> None:
    invoker = device.replayed(STEPS[:2], {})
    others = [InvokeArgs(arena=ones(device)) for _ in range(40)]
    for args in (one for one in others for _ in range(2)):
        invoker(args)  # the second time each is recorded, as long as that may pay
    assert kinds(driver, lambda: invoker(others[-1])) == [("fill", STREAM)] * 2
    assert kinds(driver, lambda: invoker(others[31]))[0] == ("replay", STREAM)
    for _ in range(8):
        invoker(others[31])
    assert kinds(driver, lambda: invoker(others[-1]))[0] == ("replay", STREAM)


def test_a_replay_goes_to_the_stream_of_the_moment(driver: StandinDriver) -> None:
    device = CudaDevice(TARGET, 0)
    current = [0x10]
    device.queue._ask = lambda number: current[0]
    invoker, args = device.replayed(STEPS, {}), InvokeArgs(arena=ones(device), output0=ones(device))
    for _ in range(2):
        invoker(args)
    current[0] = 0x20
    found = kinds(driver, lambda: invoker(args))
    assert found[:3] == [("record", 0x10), ("wait", 0x20), ("replay", 0x20)]
    assert set(found[3:]) == {("fill", 0x20)}
    device.close()


def test_inside_of_a_capture_steps_are_enqueued_one_by_one(
    driver: StandinDriver, device: CudaDevice
) -> None:
    invoker, args = device.replayed(STEPS, {}), InvokeArgs(arena=ones(device), output0=ones(device))
    for _ in range(3):
        invoker(args)
    driver.capturing.add(STREAM)
    try:
        assert kinds(driver, lambda: invoker(args)) == [("fill", STREAM)] * 5
    finally:
        driver.capturing.clear()


@pytest.mark.parametrize(
    "call",
    ["cuStreamCreate", "cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"],
)
def test_what_cannot_be_recorded_is_launched_one_by_one_and_says_why(
    driver: StandinDriver,
    device: CudaDevice,
    call: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    invoker, args = device.replayed(STEPS, {}), InvokeArgs(arena=ones(device), output0=ones(device))
    invoker(args)
    driver.failing[call] = CUresult.CUDA_ERROR_NOT_SUPPORTED
    assert kinds(driver, lambda: invoker(args)) == [("fill", STREAM)] * 5
    assert call in invoker.obstacle
    assert "without a graph" in caplog.text
    assert kinds(driver, lambda: invoker(args)) == [("fill", STREAM)] * 5


def test_a_single_step_is_no_graph(device: CudaDevice) -> None:
    assert "no longer one by one" in device.replayed(STEPS[:1], {}).obstacle


def test_missing_memory_is_named(device: CudaDevice) -> None:
    with pytest.raises(LaunchError, match="use output0, which is missing"):
        device.replayed(STEPS, {})(InvokeArgs(arena=ones(device)))


def test_a_failing_launch_of_a_graph_is_named(driver: StandinDriver, device: CudaDevice) -> None:
    invoker, args = device.replayed(STEPS, {}), InvokeArgs(arena=ones(device), output0=ones(device))
    for _ in range(2):
        invoker(args)
    driver.failing["cuGraphLaunch"] = CUresult.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(LaunchError, match="cuGraphLaunch failed with CUDA_ERROR_LAUNCH_FAILED"):
        invoker(args)


def test_a_graph_goes_with_its_last_reference(driver: StandinDriver, device: CudaDevice) -> None:
    graphs = [Graph(device.queue, lambda: None)]
    driver.journal.clear()
    graphs.clear()
    assert driver.journal == [("destroy graph",)]


def test_idle_memory_is_given_back_when_others_need_it(
    driver: StandinDriver, device: CudaDevice
) -> None:
    del (kept := [device.allocate(5000)])[:]
    assert not kept
    driver.journal.clear()
    device.trim()
    device.trim()
    assert driver.journal == [("free", STREAM), ("wait for all",)]
