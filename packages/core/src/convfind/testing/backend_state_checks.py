"""Checks of devices over time: selectors, memory that is dropped, threads, closed devices."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from convfind.errors import DeviceError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import BufferArg, Fill, f32, i32
from convfind.testing.backend_bench import (
    BackendBench,
    Unsupported,
    expect,
    expect_equal,
    launch,
    program,
    refused,
)
from convfind.testing.backend_memory_checks import aligned

_LARGE = 1 << 20
_ROUNDS = 8


def targets_are_the_same_each_time(bench: BackendBench) -> None:
    """And of this backend, with sizes that solvers can count on."""
    backend, target = bench.backend, bench.target
    expect(backend.targets() == backend.targets(), "targets differ from call to call")
    expect(target.backend == backend.name, f"the target's backend is {target.backend!r}")
    for name in ("compute_units", "max_work_group", "wave_size"):
        expect(getattr(target, name) >= 1, f"{name} is {getattr(target, name)}")
    for name in ("name", "arch", "driver"):
        expect(getattr(target, name), f"{name} is empty")


def selectors_open_their_devices(bench: BackendBench) -> None:
    """Nothing, a number, a kind, a part of the name; anything else lists the devices."""
    backend, targets = bench.backend, bench.backend.targets()
    first_of_kind = next(t for t in targets if t.kind == bench.target.kind)
    for selector, expected in (
        ("", targets[0]),
        (str(bench.number), bench.target),
        (bench.target.kind.upper(), first_of_kind),
        (targets[0].name, targets[0]),
    ):
        device = backend.open(selector)
        opened = device.target
        device.close()
        expect(opened == expected, f"open({selector!r}) opens {opened.name}")
    for selector in ("no such device", str(len(targets)), "-1"):
        told = refused(DeviceError, f"open({selector!r})", backend.open, selector)
        expect(bench.target.name in told, f"the message does not list the devices: {told}")


def a_closed_device_refuses_work(bench: BackendBench) -> None:
    """Everything, and closing it twice is nothing."""
    device = bench.opened()
    array = np.zeros(4, np.float32)
    buffer = device.upload(array)
    device.close()
    device.close()
    for doing, call in (
        ("allocate", lambda: device.allocate(4)),
        ("upload", lambda: device.upload(array)),
        ("wrap_output", lambda: device.wrap_output(array)),
        ("write", lambda: device.write(buffer, array)),
        ("read", lambda: device.read(buffer, array)),
        ("fill", lambda: device.fill(buffer, 0)),
        ("adopt", lambda: device.adopt(array)),
        ("invoker", lambda: device.invoker([Fill("y", 0, 4)], {})),
        ("compile", lambda: device.compile(program())),
        ("synchronize", device.synchronize),
    ):
        refused(DeviceError, f"{doing} on a closed device", call)


def a_device_that_is_opened_twice_is_two(bench: BackendBench) -> None:
    """Closing one leaves the other."""
    one, other = bench.opened(), bench.opened()
    buffer = other.upload(np.arange(4, dtype=np.float32))
    one.close()
    result = np.empty(4, np.float32)
    other.read(buffer, result)
    expect_equal(result, np.arange(4), "memory of a device whose twin is closed")


def buffers_may_be_dropped_while_kernels_use_them(bench: BackendBench) -> None:
    """Memory of the device, and arrays that it uses in place."""
    count = i32(_LARGE)
    step = launch(
        "conform_affine", BufferArg("x"), BufferArg("y"), f32(2), f32(1), count, size=(1 << 14,)
    )
    invoker = bench.invoker(*[step] * _ROUNDS)
    for upload in (bench.device.upload, bench.filled):
        array = aligned(_LARGE)
        array[:] = 3
        y = bench.device.allocate(4 * _LARGE)
        invoker(InvokeArgs(x=upload(array), y=y))
        del array
        spoiled = bench.device.allocate(4 * _LARGE)  # perhaps what was dropped
        bench.device.fill(spoiled, 0xFF)
        aligned(_LARGE)[:] = np.nan
        expect((bench.read(y, _LARGE) == 7).all(), "a kernel read memory of somebody else")


def invokers_keep_no_buffers_alive(bench: BackendBench) -> None:
    """Their memory could not return to the pool."""
    invoker = bench.invoker(Fill("y", 0, 64))
    buffer: Any = bench.device.allocate(64)
    try:
        gone = weakref.ref(buffer)
    except TypeError as error:
        raise Unsupported(str(error)) from error
    invoker(InvokeArgs(y=buffer))
    bench.device.synchronize()
    del buffer
    if gone() is not None:  # a circle of objects, perhaps
        gc.collect()
    expect(gone() is None, "an invoker keeps the buffers of its last call")


def threads_may_share_a_device(bench: BackendBench) -> None:
    """Each with invokers and buffers of its own."""
    count = 4096
    x, y = BufferArg("x"), BufferArg("y")

    def work(factor: int) -> bool:
        step = launch("conform_affine", x, y, f32(factor), f32(0), i32(count))
        invoker = bench.invoker(step)
        for round_ in range(20):
            args = InvokeArgs(
                x=bench.floats(np.full(count, round_)), y=bench.device.allocate(4 * count)
            )
            invoker(args)
            if not (bench.read(args.y, count) == factor * round_).all():
                return False
        return True

    expect(bench.loaded, "the program is loaded")
    with ThreadPoolExecutor(4) as pool:
        right = list(pool.map(work, range(1, 5)))
    expect(all(right), "threads get each other's results")


STATE_CHECKS = (
    targets_are_the_same_each_time,
    selectors_open_their_devices,
    a_closed_device_refuses_work,
    a_device_that_is_opened_twice_is_two,
    invokers_keep_no_buffers_alive,
)
STATE_KERNEL_CHECKS = (
    buffers_may_be_dropped_while_kernels_use_them,
    threads_may_share_a_device,
)
