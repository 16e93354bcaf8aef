"""Steps made ready and run."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from opencl_testing import Runner

from convfind.errors import LaunchError
from convfind.runtime.backend import DeviceBuffer, InvokeArgs
from convfind.solver.recipe import (
    Argument,
    BufferArg,
    Fill,
    LocalArg,
    Memory,
    ScalarArg,
    Step,
    TensorMapArg,
    f32,
    i32,
    i64,
    u32,
)
from convfind.types import DataType
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.device import OpenCLDevice

X, Y = BufferArg(Memory.X), BufferArg(Memory.Y)


def floats(
    device: OpenCLDevice, buffer: DeviceBuffer | None
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    assert buffer is not None
    result = np.empty(buffer.size // 4, np.float32)
    device.read(buffer, result)
    return result


def make_args(device: OpenCLDevice, count: int = 64) -> InvokeArgs:
    x = device.upload(np.arange(count, dtype=np.float32))
    return InvokeArgs(x=x, y=device.allocate(count * 4), workspace=device.allocate(4096))


def test_scalars_of_every_kind(device: OpenCLDevice, runner: Runner) -> None:
    values = (i32(-7), u32(2**32 - 1), i64(-(2**40)), f32(12.0))
    args = InvokeArgs(y=device.allocate(32))
    runner.run(args, runner.launch("scalars", Y, *values, size=(1,), local=(1,)))
    result = np.empty(4, np.int64)
    assert args.y is not None
    device.read(args.y, result)
    assert result.tolist() == [-7, 2**32 - 1, -(2**40), 12]


def test_local_memory_of_a_given_size(device: OpenCLDevice, runner: Runner) -> None:
    args = make_args(device)
    runner.run(args, runner.launch("reverse_groups", X, Y, LocalArg(16 * 4)))
    expected = np.arange(64).reshape(4, 16)[:, ::-1].ravel()
    assert np.array_equal(floats(device, args.y), expected)


def test_every_memory_reaches_its_argument(device: OpenCLDevice, runner: Runner) -> None:
    buffers = [device.upload(np.full(64, value, np.float32)) for value in (1, 2, 3, 4)]
    x, w, workspace, packed = buffers
    args = InvokeArgs(x=x, w=w, y=device.allocate(256), workspace=workspace, packed=packed)
    arguments = [BufferArg(memory) for memory in (Memory.X, Memory.W, Memory.WORKSPACE)]
    runner.run(args, runner.launch("add_all", *arguments, BufferArg(Memory.PACKED), Y))
    assert (floats(device, args.y) == 4321).all()


def test_memory_of_any_name_reaches_its_argument(device: OpenCLDevice, runner: Runner) -> None:
    arena = device.upload(np.arange(64, dtype=np.float32))
    args = InvokeArgs(arena=arena, result_1=device.allocate(256))
    buffers = BufferArg("arena"), BufferArg("result_1")
    runner.run(args, runner.launch("affine", *buffers, f32(2), f32(0)), Fill("result_1", 0, 4))
    assert np.array_equal(floats(device, args.result_1), 2 * np.arange(64))


def test_each_run_uses_its_own_buffers(device: OpenCLDevice, runner: Runner) -> None:
    """Some of them change from run to run, others stay."""
    steps: list[Step] = [
        runner.launch("affine", X, BufferArg("between"), f32(2), f32(0)),
        runner.launch("affine", BufferArg("between"), Y, f32(1), f32(1)),
        Fill("ends", 0, 4),
    ]
    invoker = runner.invoker(*steps)
    xs = [device.upload(np.full(64, value, np.float32)) for value in (1, 2)]
    ys = [device.allocate(256) for _ in range(2)]
    betweens = [device.allocate(256) for _ in range(2)]
    ends = [device.allocate(256) for _ in range(2)]
    for x, y, between, end in (
        (0, 0, 0, 0),
        (1, 0, 0, 0),
        (1, 1, 0, 1),
        (0, 1, 1, 1),
        (0, 0, 0, 0),
    ):
        device.fill(ys[y], 0)
        device.write(ends[end], np.full(64, 5, np.float32))
        invoker(InvokeArgs(x=xs[x], y=ys[y], between=betweens[between], ends=ends[end]))
        assert (floats(device, ys[y]) == 2 * (x + 1) + 1).all()
        assert floats(device, ends[end])[:2].tolist() == [0, 5]


@pytest.mark.parametrize("step", [Fill("bias", 0, 4), Fill("z", 0, 4)])
def test_memory_of_any_name_may_be_missing(
    device: OpenCLDevice, runner: Runner, step: Fill
) -> None:
    invoker = device.invoker([step], {})
    for args in (InvokeArgs(), InvokeArgs(**{step.memory: None})):
        for run in (invoker, invoker.timed):
            with pytest.raises(LaunchError, match=f"use {step.memory}, which is missing from"):
                run(args)


def test_a_name_that_no_memory_can_have(device: OpenCLDevice) -> None:
    with pytest.raises(LaunchError, match="letters, digits"):
        device.invoker([Fill("layer.weight", 0, 4)], {})


def test_three_dimensions(device: OpenCLDevice, runner: Runner) -> None:
    args = InvokeArgs(y=device.allocate(4 * 2 * 3 * 4))
    runner.run(args, runner.launch("coordinates", Y, size=(4, 2, 3), local=(2, 1, 3)))
    result = np.empty((3, 2, 4), np.int32)
    assert args.y is not None
    device.read(args.y, result)
    k, j, i = np.indices((3, 2, 4))
    assert np.array_equal(result, 100 * k + 10 * j + i)


def test_steps_run_in_order_through_offsets(device: OpenCLDevice, runner: Runner) -> None:
    part = BufferArg(Memory.WORKSPACE, 1024)
    args = make_args(device)
    runner.run(
        args,
        runner.launch("affine", X, part, f32(1), f32(1)),
        runner.launch("affine", part, BufferArg(Memory.WORKSPACE, 2048), f32(2), f32(0)),
        runner.launch("affine", BufferArg(Memory.WORKSPACE, 2048), Y, f32(1), f32(-1)),
    )
    assert np.array_equal(floats(device, args.y), 2 * (np.arange(64) + 1) - 1)


def test_steps_begin_where_the_device_says_they_may(device: OpenCLDevice, runner: Runner) -> None:
    """On CPUs whose kernels take any pointer that is nearer than a view may begin."""
    step = device.step_alignment
    assert step % 4 == 0
    args = InvokeArgs(x=device.upload(np.arange(64, dtype=np.float32)), y=device.allocate(4096))
    device.fill(args.y, 0)
    for times in (1, 3):
        place = BufferArg(Memory.Y, times * step)
        runner.run(args, runner.launch("affine", X, place, f32(times), f32(1)))
        result = np.empty(1024, np.float32)
        device.read(args.y, result)
        first = times * step // 4
        assert np.array_equal(result[first : first + 64], times * np.arange(64) + 1)
        assert not result[first + 64 :].any()


@pytest.mark.parametrize(("offset", "size"), [(0, 4096), (512, 1024), (512, 20), (512, 7), (0, 0)])
def test_fill_clears_its_region_only(
    device: OpenCLDevice, runner: Runner, offset: int, size: int
) -> None:
    workspace = device.allocate(4096)
    device.fill(workspace, 0xFF)
    runner.run(InvokeArgs(workspace=workspace), Fill(Memory.WORKSPACE, offset, size))
    result = np.empty(4096, np.uint8)
    device.read(workspace, result)
    expected = np.full(4096, 0xFF, np.uint8)
    expected[offset : offset + size] = 0
    assert np.array_equal(result, expected)


def test_other_buffers_may_follow(device: OpenCLDevice, runner: Runner) -> None:
    invoker = runner.invoker(
        Fill(Memory.Y, 0, 4), runner.launch("affine", X, BufferArg(Memory.Y, 512), f32(1), f32(0))
    )
    for shift in range(3):
        x = np.arange(64, dtype=np.float32) + shift
        args = InvokeArgs(x=device.upload(x), y=device.allocate(1024))
        for _ in range(2):
            invoker(args)
        result = floats(device, args.y)
        assert result[0] == 0
        assert np.array_equal(result[128:192], x)


def test_a_refused_buffer_leaves_no_trace(device: OpenCLDevice, runner: Runner) -> None:
    invoker = runner.invoker(runner.launch("affine", X, BufferArg(Memory.Y, 512), f32(1), f32(0)))
    good = make_args(device, 256)
    invoker(good)
    other = device.upload(np.full(256, -1, np.float32))
    with pytest.raises(LaunchError, match="byte 512 of y is outside its"):
        invoker(InvokeArgs(x=other, y=device.allocate(256)))
    invoker(good)
    assert np.array_equal(floats(device, good.y)[128:192], np.arange(64))


def test_one_kernel_in_two_invokers_keeps_its_arguments_apart(
    device: OpenCLDevice, runner: Runner
) -> None:
    double = runner.invoker(runner.launch("affine", X, Y, f32(2), f32(0)))
    triple = runner.invoker(runner.launch("affine", X, Y, f32(3), f32(0)))
    first, second = make_args(device), make_args(device)
    double(first)
    triple(second)
    double(first)
    assert np.array_equal(floats(device, first.y), 2 * np.arange(64))
    assert np.array_equal(floats(device, second.y), 3 * np.arange(64))


@pytest.mark.parametrize("profiled", [True, False])
def test_timed_is_the_time_of_the_steps(
    backend: OpenCLBackend, device: OpenCLDevice, profiled: bool
) -> None:
    import pyopencl as cl

    if profiled:  # the user's own queue may have event times
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(device.context, device.queue.device, properties=profiling)
        device = backend.open_native(device.context, queue)
    runner = Runner(device)
    args = InvokeArgs(y=device.upload(np.zeros(4096 + 1, np.float32)[1:]))
    short = runner.invoker(runner.launch("spin", Y, i32(10), size=(64,)))
    long = runner.invoker(*[runner.launch("spin", Y, i32(20_000), size=(4096,))] * 2)
    for invoker in (short, long):
        invoker.timed(args)  # some runtimes compile at the first launch
    began = perf_counter()
    time = long.timed(args)
    wall = (perf_counter() - began) * 1e3
    assert 0 < min(short.timed(args) for _ in range(3)) < time <= wall * 1.1


def test_no_steps_take_no_time(runner: Runner) -> None:
    invoker = runner.invoker()
    invoker(InvokeArgs())
    assert invoker.timed(InvokeArgs()) == 0.0


@pytest.mark.parametrize(
    ("size", "local", "words"),
    [
        ((65,), (16,), "not a multiple"),
        ((0,), (16,), "must be positive"),
        ((64,), (0,), "must be positive"),
        ((64, 1), (16,), "same number of dimensions"),
        ((), (), "same number of dimensions"),
        ((1, 1, 1, 1), (1, 1, 1, 1), "1 to 3"),
        ((1 << 20,), (1 << 20,), "over the"),
        ((64,), (4,), "that it declares"),
    ],
)
def test_sizes_that_do_not_fit(
    runner: Runner, size: tuple[int, ...], local: tuple[int, ...], words: str
) -> None:
    with pytest.raises(LaunchError, match=f"eight of opencl_test_kernels/steps.cl.*{words}"):
        runner.invoker(runner.launch("eight", Y, size=size, local=local))


@pytest.mark.parametrize(
    ("entry", "arguments", "words"),
    [
        ("affine", (X, Y, f32(1)), "declares 4 arguments and gets 3"),
        ("spin", (Y, i64(1)), "argument 1 of spin"),
        ("spin", (Y, ScalarArg(1, "int31")), "is no int31"),
        ("spin", (Y, i32(2**31)), "is no int32"),
        ("reverse_groups", (X, Y, LocalArg(0)), "local memory of"),
        ("reverse_groups", (X, Y, LocalArg(1 << 40)), "local memory of"),
        ("spin", (BufferArg(Memory.Y, 2), i32(1)), "byte 2 of y is no multiple of"),
        (
            "reverse_groups",
            (X, Y, TensorMapArg("x", 0, DataType.FLOAT32, (8,), (), (8,))),
            "argument 2 of .*: only CUDA has tensor maps",
        ),
        ("missing", (X,), "has no kernel 'missing'; it has: .*affine"),
    ],
)
def test_arguments_that_do_not_fit(
    runner: Runner, entry: str, arguments: tuple[Argument, ...], words: str
) -> None:
    with pytest.raises(LaunchError, match=words):
        runner.invoker(runner.launch(entry, *arguments))


def test_a_program_that_is_not_loaded(device: OpenCLDevice, runner: Runner) -> None:
    with pytest.raises(LaunchError, match="is not loaded"):
        device.invoker([runner.launch("spin", Y, i32(1))], {})


def test_missing_and_foreign_memory(device: OpenCLDevice, runner: Runner) -> None:
    class Foreign:
        size = 256

    invoker = runner.invoker(runner.launch("affine", X, Y, f32(1), f32(0)))
    good = make_args(device)
    with pytest.raises(LaunchError, match="y, which is missing"):
        invoker(InvokeArgs(x=good.x))
    with pytest.raises(LaunchError, match="x is a Foreign, not a buffer of the opencl backend"):
        invoker.timed(InvokeArgs(x=Foreign(), y=good.y))
    invoker(good)
    assert np.array_equal(floats(device, good.y), np.arange(64))


def test_regions_past_the_end(device: OpenCLDevice, runner: Runner) -> None:
    args = make_args(device)
    far = BufferArg(Memory.Y, 1 << 20)
    with pytest.raises(LaunchError, match="is outside its"):
        runner.run(args, runner.launch("affine", X, far, f32(1), f32(0)))
    with pytest.raises(LaunchError, match="past the end of its"):
        runner.run(args, Fill(Memory.Y, 512, 1 << 20))
