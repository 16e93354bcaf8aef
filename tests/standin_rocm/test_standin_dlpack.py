"""Tensors of other libraries in, tensors for other libraries out, in place on the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hip", reason="hip-python is not installed")
pytest.importorskip("convfind_backend_hip", reason="the HIP backend is not installed")

from standin import Standin
from standin_kernels import Array, checked, hip
from standin_tensors import ROCM, RocmTensor, Taken

import convfind
from convfind.backend_kit.borrowed import Borrowed
from convfind.checking.random_data import integer_data
from convfind.checking.reference import reference_convolution
from convfind.errors import ConvfindError, ProblemError
from convfind.handle import Handle
from convfind.handle.convolution import Convolution
from convfind_backend_hip import HipBackend
from convfind_backend_hip.device import HipDevice
from convfind_backend_hip.interop import adopt
from convfind_backend_hip.memory import HipBuffer
from convfind_backend_hip.stream import Event

PROBLEM = convfind.ConvProblem.forward(x=(1, 4, 6, 6), w=(8, 4, 1, 1))
SOLVER = "hip-gemm-pointwise-fwd"
X, W = (array.astype(np.float32) for array in integer_data(PROBLEM, 0))
Y = reference_convolution(PROBLEM, X, W)


@pytest.fixture
def handle(standin: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    assert standin.root
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path))
    with convfind.open("hip:0") as opened:
        yield opened


@pytest.fixture
def convolution(handle: Handle) -> Convolution:
    return handle.prepare(handle.find(PROBLEM, mode="FAST", solvers=[SOLVER]).best)


def device_of(handle: Handle) -> HipDevice:
    device = handle.session.device
    assert isinstance(device, HipDevice)
    return device


def address_of(tensor: convfind.DeviceTensor) -> int:
    assert isinstance(tensor.buffer, HipBuffer)
    return tensor.buffer.address


# -- in -------------------------------------------------------------------------------------------


def test_tensors_of_other_libraries_are_used_in_place(
    standin: Standin, handle: Handle, convolution: Convolution
) -> None:
    tensors = x, w, y = [RocmTensor(array) for array in (X, W, np.zeros(Y.shape, np.float32))]
    before = standin.count("allocations")
    assert convolution.run(x=x, w=w, out=y) is y
    handle.synchronize()
    assert standin.count("allocations") == before
    np.testing.assert_array_equal(y.numpy(), Y)
    for tensor in tensors:
        assert tensor.streams == [device_of(handle).stream]
        assert tensor.releases == 1
        tensor.free()


def test_on_the_callers_stream_tensors_are_given_back_at_once() -> None:
    device = HipBackend().open_native(0)
    tensor = RocmTensor(X)
    buffer = device.adopt(tensor)
    assert buffer is not None
    assert tensor.streams == [0]
    assert tensor.releases == 0
    del buffer
    assert tensor.releases == 1
    device.close()
    tensor.free()


def channels_last(array: Array) -> RocmTensor:
    """An NCHW tensor that PyTorch calls channels last."""
    _, channels, height, width = array.shape
    steps = (channels * height * width, 1, width * channels, channels)
    memory = np.ascontiguousarray(np.moveaxis(array, 1, -1)).reshape(array.shape)
    return RocmTensor(memory, steps=steps)


def test_channels_last_tensors_are_those_of_nhwc_problems(handle: Handle) -> None:
    problem = convfind.ConvProblem.forward(x=X.shape, w=W.shape, layout="NHWC")
    best = handle.find(problem, mode="FAST", solvers=[SOLVER]).best
    out = RocmTensor(np.zeros((1, 6, 6, 8), np.float32))
    inputs = channels_last(X), channels_last(W)
    handle.run(best, x=inputs[0], w=inputs[1], out=out)
    handle.synchronize()
    np.testing.assert_array_equal(np.moveaxis(out.numpy(), -1, 1), Y)
    for tensor in (*inputs, out):
        tensor.free()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: RocmTensor(X.astype(np.float16)), "x: 'float16'.*float32"),
        (lambda: RocmTensor(X.reshape(1, 6, 6, 4)), r"x: .*\(1, 6, 6, 4\)"),
        (lambda: channels_last(X), r"strides \(144, 1, 24, 4\).*\(144, 36, 6, 1\)"),
        (lambda: RocmTensor(X, steps=(288, 72, 12, 2)), "gaps; use its contiguous"),
        (lambda: RocmTensor(X, skipped=4), "multiple of 16 bytes; use its clone"),
        (lambda: RocmTensor(X, number=1), "lies on hip:1, and hip:0 is open"),
    ],
    ids=["type", "shape", "layout", "gaps", "alignment", "device"],
)
def test_tensors_that_do_not_fit_are_refused(
    convolution: Convolution, made: Any, words: str
) -> None:
    tensor = made()
    with pytest.raises(ConvfindError, match=words) as caught:
        convolution.run(x=tensor, w=W)
    del caught
    convolution.device.synchronize()
    assert tensor.releases == len(tensor.streams)
    tensor.free()


def test_strides_tell_what_lies_channels_last(handle: Handle) -> None:
    problem = convfind.ConvProblem.forward((1, 8, 8, 8), (8, 8, 1, 1), layout="NHWC")
    best = handle.find(problem, mode="FAST", solvers=[SOLVER]).best
    x, w = (np.moveaxis(array, -1, 1).astype(np.float32) for array in integer_data(problem, 0))
    told, weights = channels_last(x), channels_last(w)
    out = RocmTensor(np.zeros((1, 8, 8, 8), np.float32), steps=(512, 1, 64, 8))
    assert handle.run(best, x=told, w=weights, out=out) is out
    handle.synchronize()
    expected = np.einsum("nchw,kc->nkhw", x, w[:, :, 0, 0])
    memory = out.numpy().reshape(1, 8, 8, 8)
    np.testing.assert_array_equal(np.moveaxis(memory, -1, 1), expected)
    untold = RocmTensor(np.ascontiguousarray(x))
    with pytest.raises(ProblemError, match=r"x: \(1, 8, 8, 8\).*transpose\(0, 3, 1, 2\)"):
        handle.run(best, x=untold, w=weights)
    handle.synchronize()
    for tensor in (told, weights, out, untold):
        tensor.free()


def test_a_result_over_an_input_is_refused(handle: Handle) -> None:
    problem = convfind.ConvProblem.forward((1, 4, 6, 6), (4, 4, 1, 1))
    best = handle.find(problem, mode="FAST", solvers=[SOLVER]).best
    x, w = RocmTensor(X), np.ones((4, 4, 1, 1), np.float32)
    with pytest.raises(ProblemError, match="out: 'memory of an input'"):
        handle.run(best, x=x, w=w, out=x)
    mine = handle.tensor(X)
    with pytest.raises(ProblemError, match="out: 'memory of an input'"):
        handle.run(best, x=mine, w=w, out=Passed(mine))
    handle.synchronize()
    x.free()


def test_a_tensor_without_memory_is_refused(convolution: Convolution) -> None:
    class Meta:
        def __dlpack_device__(self) -> tuple[int, int]:
            msg = "Unknown device type meta"
            raise ValueError(msg)

    with pytest.raises(ProblemError, match=r"'Meta'.*Unknown device type meta"):
        convolution.run(x=Meta(), w=W)


def test_an_empty_batch_runs(handle: Handle) -> None:
    problem = convfind.ConvProblem.backward_weights((0, 4, 6, 6), (8, 4, 1, 1))
    empty = np.zeros((0, 4, 6, 6), np.float32), np.zeros((0, 8, 6, 6), np.float32)
    best = handle.find(problem).best
    given = dict(zip("xy", map(handle.tensor, empty), strict=True))
    assert not handle.to_numpy(handle.run(best, **given)).any()
    assert not handle.run(best, x=empty[0], y=empty[1]).any()


def test_tensors_are_given_back_where_a_device_is_dropped_without_being_closed(
    handle: Handle,
) -> None:
    stream, tensor = device_of(handle).stream, RocmTensor(X)
    borrowed = Borrowed(stream, Event)
    buffer = adopt(tensor, 0, stream, borrowed)
    assert buffer is not None
    del buffer
    assert tensor.releases == 0
    del borrowed
    assert tensor.releases == 1
    tensor.free()


def test_a_library_that_does_not_share_is_quoted(convolution: Convolution) -> None:
    class Private(RocmTensor):
        def __dlpack__(self, *, stream: int) -> object:
            msg = "it requires a gradient"
            raise BufferError(msg)

    class Odd(RocmTensor):
        def __dlpack__(self, *, stream: int) -> object:
            return "capsule"

    for kind, words in ((Private, "Private does not.*a gradient"), (Odd, "'capsule'.*dltensor")):
        tensor = kind(X)
        with pytest.raises(ConvfindError, match=words):
            convolution.run(x=tensor, w=W)
        tensor.free()


# -- out ------------------------------------------------------------------------------------------


def test_a_result_is_shared_with_other_libraries_in_place(
    handle: Handle, convolution: Convolution
) -> None:
    result = convolution.run(x=handle.tensor(X), w=handle.tensor(W))
    assert result.__dlpack_device__() == (ROCM, 0)
    taken = Taken(result, stream=0, max_version=(1, 1), dl_device=(ROCM, 0), copy=False)
    tensor = taken.tensor
    assert tensor.data == address_of(result)
    assert tuple(tensor.device) == (ROCM, 0)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 32, 1, 0)
    assert taken.shape == Y.shape
    assert taken.strides == (288, 36, 6, 1)
    copied = np.empty(Y.shape, np.float32)
    to_host = hip.hipMemcpyKind.hipMemcpyDeviceToHost
    checked(hip.hipMemcpy(copied, tensor.data, copied.nbytes, to_host))
    np.testing.assert_array_equal(copied, Y)
    taken.release()


class Passed:
    """A tensor of another library that it took from here."""

    def __init__(self, tensor: convfind.DeviceTensor) -> None:
        self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__


def test_what_goes_out_comes_in_again(handle: Handle, convolution: Convolution) -> None:
    x, w, y = (handle.tensor(array) for array in (X, W, np.zeros(Y.shape, np.float32)))
    out = Passed(y)
    assert convolution.run(x=Passed(x), w=Passed(w), out=out) is out
    np.testing.assert_array_equal(handle.to_numpy(y), Y)


def test_types_and_steps_go_out(handle: Handle) -> None:
    kinds = {"float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16), "int8": (0, 8)}
    for name, kind in kinds.items():
        dtype = convfind.DataType(name)
        taken = Taken(handle.tensor(np.ones((2, 3), dtype.numpy)))
        assert (taken.tensor.code, taken.tensor.bits) == kind
        taken.release()
    gaps = convfind.DeviceTensor(
        handle.tensor(X).buffer, (2, 3), convfind.DataType.FLOAT32, strides=(8, 2)
    )
    taken = Taken(gaps)
    assert taken.strides == (8, 2)
    taken.release()


def test_shared_memory_lives_as_long_as_anybody_uses_it(standin: Standin, handle: Handle) -> None:
    result = handle.tensor(X)
    live = standin.count("allocations")
    taken = Taken(result, stream=0)
    del result
    others = [handle.tensor(X) for _ in range(3)]
    assert standin.count("allocations") == live + 3
    assert taken.tensor.data not in {address_of(other) for other in others}
    taken.release()
    del others
    handle.tensor(X)
    # Another stream may still be at it, so it has not gone to the pool, where the three went.
    assert standin.count("allocations") == live + 2


def test_memory_that_stays_on_the_stream_is_used_again(standin: Standin, handle: Handle) -> None:
    result = handle.tensor(X)
    live, events = standin.count("allocations"), standin.count("events")
    taken = Taken(result, stream=device_of(handle).stream)
    address = address_of(result)
    del result
    taken.release()
    assert address_of(handle.tensor(X)) == address
    assert (standin.count("allocations"), standin.count("events")) == (live, events)


def test_a_capsule_that_nobody_opens_keeps_nothing(standin: Standin, handle: Handle) -> None:
    live = standin.count("allocations")
    handle.tensor(X).__dlpack__()
    with pytest.raises((BufferError, RuntimeError), match="device"):
        np.from_dlpack(handle.tensor(X))  # type: ignore[arg-type]
    handle.tensor(X)
    assert standin.count("allocations") <= live + 1


def test_the_takers_stream_waits(handle: Handle) -> None:
    tensor = handle.tensor(X)
    stream = checked(hip.hipStreamCreate())
    for accepted in (None, 0, -1, int(stream)):
        Taken(tensor, stream=accepted).release()
    checked(hip.hipStreamDestroy(stream))
    with pytest.raises(ConvfindError, match="hipStreamWaitEvent failed with hipErrorInvalidHandle"):
        tensor.__dlpack__(stream=0xDEAD0)
    for refused in (1, 2, -2):
        with pytest.raises(BufferError, match=f"stream {refused}: not one of ROCm's"):
            tensor.__dlpack__(stream=refused)


def test_copies_and_other_devices_are_refused(handle: Handle) -> None:
    tensor = handle.tensor(X)
    with pytest.raises(BufferError, match="not copied"):
        tensor.__dlpack__(copy=True)
    with pytest.raises(BufferError, match=r"\(1, 0\).*\(10, 0\)"):
        tensor.__dlpack__(dl_device=(1, 0))
    borrowed = RocmTensor(X)
    buffer = device_of(handle).adopt(borrowed)
    assert buffer is not None
    with pytest.raises(BufferError, match="another library"):
        buffer.dlpack_device()
    del buffer
    handle.synchronize()
    borrowed.free()


def test_an_error_under_way_is_not_lost(handle: Handle) -> None:
    """Python releases what it had at hand while it raises."""

    class Library(Taken):
        __del__ = Taken.release

    with pytest.raises(TypeError, match="int"):
        int(Library(handle.tensor(X)))  # type: ignore[call-overload]


def test_cycles_leave_nothing(standin: Standin, handle: Handle, convolution: Convolution) -> None:
    x, w = handle.tensor(X), handle.tensor(W)
    out = handle.tensor(np.zeros(Y.shape, np.float32))

    def cycle() -> None:
        convolution.run(x=Passed(x), w=w, out=Passed(out))
        Taken(convolution.run(x=x, w=w)).release()

    cycle()
    handle.synchronize()
    settled = standin.live()
    for _ in range(500):
        cycle()
    handle.synchronize()
    assert standin.live() == settled
