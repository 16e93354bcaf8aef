"""Memory that is dropped while commands use it: kept until the queue is past them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.tools
import pytest
from numpy.typing import NDArray
from opencl_testing import Runner

import convfind
from convfind.checking.reference import reference_convolution
from convfind.errors import ProblemError
from convfind.handle import Handle
from convfind.handle.opening import handle_for
from convfind.plugins import hookimpl
from convfind.plugins.registry import Registry
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import BufferArg, Memory, f32
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.device import OpenCLDevice
from convfind_backend_opencl.gemm.solver_list import solvers
from convfind_backend_opencl.host_memory import HOST_ALIGNMENT
from convfind_backend_opencl.memory import OpenCLBuffer

Floats = NDArray[np.float32]
AFFINE = (BufferArg(Memory.X), BufferArg(Memory.Y), f32(2), f32(1))
COUNT = 1024
#: Launches in a row: any of them reads what should be there still.
STEPS = 8


def aligned(count: int = COUNT) -> Floats:
    raw = np.zeros(count * 4 + HOST_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % HOST_ALIGNMENT
    return raw[start : start + count * 4].view(np.float32)


@pytest.fixture
def opened(backend: OpenCLBackend, device: OpenCLDevice) -> Iterator[OpenCLDevice]:
    """A device of its own."""
    context = cl.Context([device.queue.device])
    own = backend.open_native(context, cl.CommandQueue(context))
    if own.wrap_output(aligned()) is None:
        pytest.skip(f"{own.target.name} has memory of its own")
    yield own
    own.close()


@pytest.fixture
def start(opened: OpenCLDevice) -> Iterator[Callable[[], None]]:
    """Nothing that is enqueued from now on begins before this is called."""
    gate = cl.UserEvent(opened.context)
    cl.enqueue_barrier(opened.queue, wait_for=[gate])

    def open_gate() -> None:
        if gate.command_execution_status != cl.command_execution_status.COMPLETE:
            gate.set_status(cl.command_execution_status.COMPLETE)

    yield open_gate
    open_gate()


def enqueue(device: OpenCLDevice, x: OpenCLBuffer | None, y: OpenCLBuffer) -> None:
    runner = Runner(device)
    launch = runner.launch("affine", *AFFINE, size=(COUNT,))
    runner.invoker(*[launch] * STEPS)(InvokeArgs(x=x, y=y))


def spoil() -> None:
    """Take freed memory of the same size and write into it."""
    for _ in range(4):
        aligned()[:] = np.nan


def result_in(device: OpenCLDevice, y: OpenCLBuffer) -> Floats:
    result = np.empty(COUNT, np.float32)
    device.read(y, result)
    return result


def test_an_array_lives_until_the_queue_is_past_it(opened: OpenCLDevice) -> None:
    y = opened.allocate(4 * COUNT)
    gate = cl.UserEvent(opened.context)
    x = aligned()
    x[:] = 3
    gone = weakref.ref(x)
    buffer = opened.upload(x)
    cl.enqueue_barrier(opened.queue, wait_for=[gate])
    enqueue(opened, buffer, y)
    del x, buffer
    spoil()
    assert gone() is not None
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert (result_in(opened, y) == 7).all()
    assert gone() is None


def test_an_array_goes_at_once_when_nothing_is_under_way(opened: OpenCLDevice) -> None:
    y = opened.allocate(4 * COUNT)
    x = aligned()
    gone = weakref.ref(x)
    buffer = opened.upload(x)
    del x
    enqueue(opened, buffer, y)
    opened.synchronize()
    del buffer
    assert gone() is None


def test_a_result_is_written_into_memory_that_lives(
    opened: OpenCLDevice, start: Callable[[], None]
) -> None:
    x = opened.upload(aligned())
    out = aligned()
    gone = weakref.ref(out)
    buffer = opened.wrap_output(out)
    assert buffer is not None
    enqueue(opened, x, buffer)
    del out, buffer
    assert gone() is not None
    start()
    opened.synchronize()
    assert gone() is None


def test_an_array_under_the_users_own_buffer_lives(
    opened: OpenCLDevice, start: Callable[[], None]
) -> None:
    y = opened.allocate(4 * COUNT)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
    x = aligned()
    gone = weakref.ref(x)
    enqueue(opened, opened.adopt(cl.Buffer(opened.context, flags, hostbuf=x)), y)
    del x
    assert gone() is not None
    start()
    opened.synchronize()
    assert gone() is None


def test_memory_of_the_users_pool_returns_when_the_queue_is_past_it(
    opened: OpenCLDevice, start: Callable[[], None]
) -> None:
    y = opened.allocate(4 * COUNT)
    pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(opened.queue))
    enqueue(opened, opened.adopt(pool.allocate(4 * COUNT)), y)
    assert pool.active_blocks == 1
    start()
    opened.synchronize()
    assert pool.active_blocks == 0


def test_what_is_kept_is_bounded(opened: OpenCLDevice) -> None:
    memory = opened._host_memory
    memory._most = 3 * 4 * COUNT
    y = opened.allocate(4 * COUNT)
    for _ in range(12):
        enqueue(opened, opened.upload(aligned()), y)
        assert memory.kept <= 4 * 4 * COUNT
    opened.close()
    assert memory.kept == 0


def test_an_interrupted_timing_leaves_nothing_under_way(opened: OpenCLDevice) -> None:
    runner, count = Runner(opened), 1 << 22
    launch = runner.launch("affine", *AFFINE, size=(count,))
    invoker = runner.invoker(*[launch] * STEPS)

    class Interrupted:
        memories = ()

        def bind(self, buffers: object) -> None:
            """Nothing."""

        def enqueue(self, *_: object) -> None:
            raise KeyboardInterrupt

    invoker._steps[-1] = Interrupted()  # type: ignore[call-overload]
    y = aligned(count)
    args = InvokeArgs(x=opened.upload(aligned(count)), y=opened.wrap_output(y))
    with pytest.raises(KeyboardInterrupt):
        invoker.timed(args)
    assert (y == 1).all()


# -- through a handle -----------------------------------------------------------------------------

PROBLEM = convfind.ConvProblem.forward(x=(1, 32, 32, 32), w=(32, 32, 1, 1))


class Solvers:
    """The backend's own."""

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        register.extend(solvers())


@pytest.fixture
def handle(opened: OpenCLDevice, tmp_path: Path) -> Handle:
    registry = Registry.build([Solvers()], load_entry_points=False)
    return handle_for(opened, registry, convfind.Settings(user_db_path=tmp_path))


def tensors() -> tuple[Floats, Floats, Any]:
    x, w = aligned(32**3), aligned(32**2)
    generator = np.random.default_rng(5)
    for array in (x, w):
        array[:] = generator.standard_normal(array.size)
    given = x.reshape(PROBLEM.x_shape), w.reshape(PROBLEM.w_shape)
    return *given, reference_convolution(PROBLEM, *given)


def test_tensors_may_be_dropped_while_they_are_read(handle: Handle) -> None:
    best = handle.find(PROBLEM, mode="FAST").best
    handle.prepare(best)
    for _ in range(20):
        x, w, expected = tensors()
        result = handle.run(best, x=handle.tensor(x), w=handle.tensor(w))
        aligned(32**3)[:] = np.nan
        np.testing.assert_allclose(handle.to_numpy(result), expected, atol=1e-3)


def test_arrays_may_change_while_their_result_is_computed_on_the_device(handle: Handle) -> None:
    best = handle.find(PROBLEM, mode="FAST").best
    handle.prepare(best)
    out = handle.tensor(np.zeros(PROBLEM.y_shape, np.float32))
    for _ in range(20):
        x, w, expected = tensors()
        handle.run(best, x=x, w=w, out=out)
        x[...], w[...] = np.nan, np.nan
        np.testing.assert_allclose(handle.to_numpy(out), expected, atol=1e-3)


def test_an_interrupted_run_leaves_its_arrays_alone(
    handle: Handle, opened: OpenCLDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = handle.find(PROBLEM, mode="FAST").best
    handle.prepare(best)
    x, w, expected = tensors()
    out = aligned(expected.size).reshape(PROBLEM.y_shape)
    base = weakref.ref(out.base)
    gate = cl.UserEvent(opened.context)
    cl.enqueue_barrier(opened.queue, wait_for=[gate])
    with monkeypatch.context() as patch:
        patch.setattr(opened, "synchronize", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            handle.run(best, x=x, w=w, out=out)
    written = out[...]
    del x, w, out
    spoil()
    gate.set_status(cl.command_execution_status.COMPLETE)
    handle.synchronize()
    np.testing.assert_allclose(written, expected, atol=1e-3)
    del written
    assert base() is None


def test_closing_waits_for_what_is_under_way(handle: Handle) -> None:
    best = handle.find(PROBLEM, mode="FAST").best
    x, w, _ = tensors()
    for _ in range(20):
        handle.run(best, x=handle.tensor(x), w=handle.tensor(w))
    handle.close()


def test_arrays_of_pyopencl_are_checked(handle: Handle, opened: OpenCLDevice) -> None:
    import pyopencl.array as cla

    best = handle.find(PROBLEM, mode="FAST").best
    x, w, expected = tensors()
    weights = cla.to_device(opened.queue, w)
    wrong = x.astype(np.int32), x.reshape(1, 64, 16, 32), x.reshape(2, 16, 32, 32), x[0]
    for array in wrong:
        with pytest.raises(ProblemError, match="x: "):
            handle.run(best, x=cla.to_device(opened.queue, array), w=weights)
    columns: Any = cla.to_device(opened.queue, x.transpose(0, 1, 3, 2).copy())
    with pytest.raises(ProblemError, match=r"x: .*strides"):
        handle.run(best, x=columns.transpose((0, 1, 3, 2)), w=weights)
    for array in wrong[1:]:
        with pytest.raises(ProblemError, match="y: "):
            handle.run(best, x=x, w=w, out=cla.to_device(opened.queue, array))
    frozen = cl.Buffer(opened.context, cl.mem_flags.READ_ONLY, PROBLEM.nbytes("y"))
    with pytest.raises(ProblemError, match="out: 'read-only memory'"):
        handle.run(best, x=x, w=w, out=frozen)
    out = cla.empty(opened.queue, PROBLEM.y_shape, np.float32)
    assert handle.run(best, x=cla.to_device(opened.queue, x), w=weights, out=out) is out
    np.testing.assert_allclose(out.get(), expected, atol=1e-3)


def test_arrays_of_pyopencl_lie_channels_last_where_their_strides_say_so(
    handle: Handle, opened: OpenCLDevice
) -> None:
    import pyopencl.array as cla

    problem = convfind.ConvProblem.forward((2, 8, 8, 8), (8, 8, 1, 1), layout="NHWC")
    best = handle.find(problem, mode="FAST").best
    generator = np.random.default_rng(5)
    x, w = (generator.standard_normal(shape, np.float32) for shape in ((2, 8, 8, 8), (8, 1, 1, 8)))
    given: Any = cla.to_device(opened.queue, x), cla.to_device(opened.queue, w)
    with pytest.raises(ProblemError, match=r"x: .*transpose\(0, 3, 1, 2\)"):
        handle.run(best, x=given[0], w=given[1])
    result = handle.run(best, x=given[0].transpose((0, 3, 1, 2)), w=given[1])
    expected = np.moveaxis(reference_convolution(problem, x, w), -1, 1)
    np.testing.assert_allclose(handle.to_numpy(result), expected, atol=1e-4)


def test_a_result_over_an_input_is_refused(handle: Handle, opened: OpenCLDevice) -> None:
    import pyopencl.array as cla

    best = handle.find(PROBLEM, mode="FAST").best
    _, w, _ = tensors()
    both = cla.zeros(opened.queue, (64, 32, 32), np.float32)
    x_part, over, apart = (both[at : at + 32].reshape(PROBLEM.x_shape) for at in (0, 16, 32))
    with pytest.raises(ProblemError, match="out: 'memory of an input'"):
        handle.run(best, x=x_part, w=w, out=over)
    handle.run(best, x=x_part, w=w, out=apart)
