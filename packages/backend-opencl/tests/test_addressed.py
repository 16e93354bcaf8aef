"""Steps on the host's memory by its addresses compute what they do on buffers."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from opencl_testing import Runner

from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import BufferArg, Fill, Memory, f32
from convfind_backend_opencl.addressed import AddressedSteps
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.invoker import OpenCLInvoker
from convfind_backend_opencl.memory import OpenCLBuffer

SIZES = {"x": 256, "y": 256}


def numbers(value: float = 0.0) -> np.ndarray:
    """Return 64 floats that start at a multiple of 64 bytes."""
    whole = np.empty(64 + 16, np.float32)
    begin = -whole.ctypes.data % 64 // 4
    found = whole[begin : begin + 64]
    found[:] = value
    return found


def addresses(*arrays: np.ndarray) -> list[int]:
    return [array.ctypes.data for array in arrays]


def affine(runner: Runner) -> OpenCLInvoker:
    """Return steps that write 2 * x + 1 to y."""
    return runner.invoker(
        runner.launch("affine", BufferArg(Memory.X), BufferArg(Memory.Y), f32(2), f32(1))
    )


def addressed(
    device: OpenCLDevice,
    invoker: OpenCLInvoker,
    sizes: Mapping[str, int] = SIZES,
    **fixed: OpenCLBuffer,
) -> AddressedSteps:
    made = device.addressed(invoker, fixed, sizes)
    if made is None:
        pytest.skip("kernels of this device take no addresses")
    return made


def test_each_call_reads_and_writes_where_it_says(device: OpenCLDevice, runner: Runner) -> None:
    run = addressed(device, affine(runner))
    arrays = [numbers(at) for at in range(3)]
    for at, x in enumerate(arrays):
        for y in (numbers(-1), numbers(-2)):
            run(addresses(x, y))
            assert np.array_equal(y, np.full(64, 2 * at + 1, np.float32))
    run(addresses(arrays[1], arrays[1]))
    run(addresses(arrays[1], arrays[1]))
    assert np.array_equal(arrays[1], np.full(64, 7, np.float32))


def test_calls_with_buffers_and_times_go_between(device: OpenCLDevice, runner: Runner) -> None:
    invoker = affine(runner)
    first, second = addressed(device, invoker), addressed(device, invoker)
    args = InvokeArgs(x=device.upload(numbers(5)), y=device.allocate(256))
    others = InvokeArgs(x=device.upload(numbers(6)), y=device.allocate(256))
    for _ in range(2):
        for run in (first, second, first):
            x, y = numbers(3), numbers()
            for between in (None, invoker, invoker.timed):
                if between is not None:
                    between(args)
                    between(others)
                y[:] = 0
                run(addresses(x, y))
                assert np.array_equal(y, np.full(64, 7, np.float32))
                assert args.y is not None
                if between is not None:
                    found = np.empty(64, np.float32)
                    device.read(args.y, found)
                    assert np.array_equal(found, np.full(64, 11, np.float32))


def test_fixed_memory_stays_where_it_is(device: OpenCLDevice, runner: Runner) -> None:
    invoker = affine(runner)
    runs = [
        addressed(device, invoker, {"y": 256}, x=device.upload(numbers(value))) for value in (1, 2)
    ]
    for _ in range(2):
        for value, run in enumerate(runs, 1):
            y = numbers()
            run(addresses(y))
            run(addresses(y))
            assert np.array_equal(y, np.full(64, 2 * value + 1, np.float32))


def test_several_steps_share_addresses(device: OpenCLDevice, runner: Runner) -> None:
    twice = runner.invoker(
        runner.launch("affine", BufferArg("x"), BufferArg("workspace"), f32(2), f32(1)),
        runner.launch("affine", BufferArg("workspace"), BufferArg("y"), f32(3), f32(0)),
    )
    run = addressed(device, twice, {"x": 256, "workspace": 256, "y": 256})
    x, y = numbers(4), numbers()
    run(addresses(x, numbers(), y))
    assert np.array_equal(y, np.full(64, 27, np.float32))


def test_steps_that_need_buffers_have_none(device: OpenCLDevice, runner: Runner) -> None:
    filling = runner.invoker(Fill("y", 0, 256))
    assert device.addressed(filling, {}, SIZES) is None


@pytest.mark.parametrize("sizes", [{"x": 256}, {"y": 256}], ids=str)
def test_memory_that_is_missing_is_named(
    device: OpenCLDevice, runner: Runner, sizes: dict[str, int]
) -> None:
    addressed(device, affine(runner))
    (missing,) = SIZES.keys() - sizes.keys()
    with pytest.raises(LaunchError, match=f"the steps use {missing}"):
        device.addressed(affine(runner), {}, sizes)


def test_offsets_count_from_the_address(device: OpenCLDevice, runner: Runner) -> None:
    shifted = runner.launch(
        "affine", BufferArg("x", 128), BufferArg("y"), f32(1), f32(0), size=(32,), local=(16,)
    )
    run = addressed(device, runner.invoker(shifted))
    x, y = numbers(), numbers(-1)
    x[32:] = np.arange(32)
    run(addresses(x, y))
    assert np.array_equal(y[:32], np.arange(32, dtype=np.float32))
    assert np.array_equal(y[32:], np.full(32, -1, np.float32))
    with pytest.raises(LaunchError):
        device.addressed(runner.invoker(shifted), {}, {"x": 64, "y": 256})


def test_steps_at_addresses_keep_their_invoker_and_nothing_of_a_call(
    device: OpenCLDevice, runner: Runner
) -> None:
    invoker = affine(runner)
    run = addressed(device, invoker)
    x, y = numbers(1), numbers()
    run(addresses(x, y))
    gone = [weakref.ref(one.base) for one in (x, y)]
    kept = weakref.ref(invoker)
    del x, y, invoker
    gc.collect()
    assert all(one() is None for one in gone)
    assert kept() is not None
    del run
    assert kept() is None  # at once: there is no ring of references


def test_the_calling_thread_computes_where_that_takes_less_time(
    device: OpenCLDevice, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("convfind_backend_opencl.addressed.perf_counter", lambda: clock[0])
    for alone, together in ((1e-5, 2e-5), (2e-5, 1e-5), (1e-3, 2e-3)):
        run = addressed(device, affine(runner))
        if run.is_local is not None:
            pytest.skip("the calling thread does not compute alone here")
        here, there = run._run_here, run._run
        ran: list[str] = []

        def timed_here(
            given: Sequence[int],
            here: Callable[..., None] = here,
            time: float = alone,
            ran: list[str] = ran,
        ) -> None:
            here(given)
            ran.append("alone")
            clock[0] += time

        def timed_there(
            given: Sequence[int],
            queue: object,
            finish: object,
            there: Callable[..., None] = there,
            device: OpenCLDevice = device,
            time: float = together,
            ran: list[str] = ran,
        ) -> None:
            there(given, queue, finish)
            if queue is device.queue:
                ran.append("together")
                clock[0] += time

        monkeypatch.setattr(run, "_run_here", timed_here)
        monkeypatch.setattr(run, "_run", timed_there)
        for at in range(14):
            x, y = numbers(at), numbers(-1)
            run(addresses(x, y))
            assert np.array_equal(y, np.full(64, 2 * at + 1, np.float32))
        assert run.is_local == (alone < together < 5e-4)
        if together > 5e-4:
            assert ran.count("alone") == 1, "long kernels are worth other threads"
        else:
            assert ran[-4:] == ["alone" if run.is_local else "together"] * 4


def test_a_calling_thread_that_computes_comes_after_what_is_under_way(
    device: OpenCLDevice, runner: Runner
) -> None:
    run = addressed(device, affine(runner))
    if run.is_local is not None:
        pytest.skip("the calling thread does not compute alone here")
    run.is_local = True
    first, then = numbers(3), numbers()
    buffer, between = device.upload(first), device.wrap_output(then)
    assert between is not None
    twice = affine(runner)
    for at in range(20):
        first[:] = at
        y = numbers()
        for _ in range(5):
            twice(InvokeArgs(x=buffer, y=between))  # nobody waits for it
        run(addresses(then, y))
        assert np.array_equal(y, np.full(64, 2 * (2 * at + 1) + 1, np.float32))


def test_an_argument_that_is_refused_half_way_is_set_by_the_next_call(
    device: OpenCLDevice, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = addressed(device, affine(runner))
    for is_local in (False, True):
        if is_local and run._local is None:
            continue
        run.is_local = is_local
        x, y = numbers(2), numbers()
        run(addresses(x, y))
        (launch,) = run._launches
        with monkeypatch.context() as patch:

            def refusing(queue: object) -> None:
                raise LaunchError("out of resources")

            patch.setattr(launch, "enqueue", refusing)
            other = numbers(7)
            with pytest.raises(LaunchError, match="out of resources"):
                run(addresses(other, y))
        run(addresses(x, y))
        assert np.array_equal(y, np.full(64, 5, np.float32))
