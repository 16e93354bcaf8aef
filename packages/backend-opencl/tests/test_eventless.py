"""Launches without events do what those with events do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest
from opencl_testing import Runner

from convfind.device.target import DeviceKind
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import KernelSpec
from convfind.solver.recipe import BufferArg, Memory, f32
from convfind_backend_opencl import eventless
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.eventless import EventlessLaunch
from convfind_backend_opencl.invoker import OpenCLInvoker
from convfind_backend_opencl.module import LoadedProgram


@pytest.fixture
def adding(runner: Runner) -> tuple[cl.Kernel, cl.Buffer]:
    """A kernel that adds one to each of 64 numbers, and these, which are zero."""
    device = runner.device
    program = device.load(runner.program, device.compile(runner.program))
    assert isinstance(program, LoadedProgram)
    kernel = program.kernel(KernelSpec(runner.program, "affine"))
    memory = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 256)
    cl.enqueue_copy(device.queue, memory, np.zeros(64, np.float32))
    kernel.set_args(memory, memory, np.float32(1), np.float32(1))
    return kernel, memory


def numbers(device: OpenCLDevice, memory: cl.Buffer) -> list[float]:
    found = np.empty(64, np.float32)
    cl.enqueue_copy(device.queue, found, memory)
    return [float(number) for number in found]


def test_the_loader_of_pyopencl_is_found() -> None:
    assert eventless._enqueue_function() is not None


@pytest.mark.parametrize("is_found", [True, False])
def test_every_item_of_every_launch_runs(
    device: OpenCLDevice,
    adding: tuple[cl.Kernel, cl.Buffer],
    monkeypatch: pytest.MonkeyPatch,
    is_found: bool,
) -> None:
    kernel, memory = adding
    if not is_found:
        monkeypatch.setattr(eventless, "_enqueue_function", lambda: None)
    launch = EventlessLaunch(kernel, (64,), (16,))
    for _ in range(5):
        launch.enqueue(device.queue)
    assert numbers(device, memory) == [5.0] * 64


def test_a_launch_goes_to_the_queue_that_it_is_given(
    device: OpenCLDevice, adding: tuple[cl.Kernel, cl.Buffer]
) -> None:
    kernel, memory = adding
    launch = EventlessLaunch(kernel, (64,), (16,))
    other = cl.CommandQueue(device.context, device.queue.device)
    for queue in (other, device.queue, other, other):
        launch.enqueue(queue)
        queue.finish()
    assert numbers(device, memory) == [4.0] * 64
    del other
    another = cl.CommandQueue(device.context, device.queue.device)
    launch.enqueue(another)
    another.finish()
    assert numbers(device, memory) == [5.0] * 64


def test_a_refused_launch_says_why(
    device: OpenCLDevice, adding: tuple[cl.Kernel, cl.Buffer]
) -> None:
    kernel, memory = adding
    with pytest.raises(cl.Error):
        EventlessLaunch(kernel, (64,), (2**20,)).enqueue(device.queue)
    assert numbers(device, memory) == [0.0] * 64


def test_gpus_run_their_steps_without_events(
    device: OpenCLDevice, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[EventlessLaunch] = []
    enqueue = EventlessLaunch.enqueue

    def noted(launch: EventlessLaunch, queue: cl.CommandQueue) -> None:
        launched.append(launch)
        enqueue(launch, queue)

    monkeypatch.setattr(EventlessLaunch, "enqueue", noted)
    step = runner.launch("affine", BufferArg(Memory.X), BufferArg(Memory.Y), f32(2), f32(1))
    loaded = {runner.program: device.load(runner.program, device.compile(runner.program))}
    args = InvokeArgs(x=device.upload(np.arange(64, dtype=np.float32)), y=device.allocate(256))
    as_gpu = replace(device.target, identity="", kind=DeviceKind.GPU)
    invoker = OpenCLInvoker(
        device.queue,
        lambda: device._timing_queue,
        as_gpu,
        device._caller,
        device._host_memory,
        [step],
        loaded,
    )
    for run, expected in ((invoker, 1), (invoker.timed, 1), (invoker, 2)):
        run(args)
        assert len(launched) == expected
    assert args.y is not None
    result = np.empty(64, np.float32)
    device.read(args.y, result)
    assert np.array_equal(result, 2 * np.arange(64, dtype=np.float32) + 1)
