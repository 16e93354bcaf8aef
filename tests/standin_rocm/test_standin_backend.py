"""The HIP backend as users meet it: finds, tensors of other libraries, faults, nothing left."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hip", reason="hip-python is not installed")
pytest.importorskip("convfind_backend_hip", reason="the HIP backend is not installed")

from standin import Standin
from standin_kernels import Array, checked, downloaded, hip, uploaded

import convfind
from convfind.accuracy import integer_data
from convfind.errors import BackendUnavailableError, ConvfindError
from convfind.handle import Handle
from convfind.reasons import Reason
from convfind.reference import reference_convolution
from convfind_backend_hip import HipBackend, compiler
from convfind_backend_hip.compile_pool import CompilePool

CYCLES = 10_000
ROCM = 10  # DLPack's number
PROBLEM = convfind.ConvProblem.forward(x=(1, 4, 6, 6), w=(8, 4, 1, 1))
SOLVER = "hip-gemm-pointwise-fwd"
X, W = integer_data(PROBLEM, 0)
Y = reference_convolution(PROBLEM, X, W)


@pytest.fixture(autouse=True)
def own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path))


def found(handle: Handle, **policy: Any) -> convfind.Solution:
    """Return the GEMM fallback's solution."""
    return handle.find(PROBLEM, solvers=[SOLVER], **policy).best


def test_ten_thousand_finds_and_runs_leave_nothing(standin: Standin) -> None:
    before = standin.live()
    with convfind.open("hip:0") as handle:
        handle.run(found(handle, mode="NORMAL"), x=X, w=W)
        settled = standin.live()
        for _ in range(CYCLES):
            y = handle.run(found(handle), x=X, w=W)
        np.testing.assert_array_equal(y, Y)
        assert standin.live() == settled
    del handle
    assert standin.live() == before


def test_a_device_that_is_opened_again_leaves_nothing(standin: Standin) -> None:
    before = standin.live()
    for _ in range(20):
        with convfind.open("hip:0") as handle:
            found(handle, mode="NORMAL")
    assert standin.live() == before


def test_two_backends_share_a_database_and_no_record() -> None:
    pytest.importorskip("convfind_backend_opencl", reason="the OpenCL backend is not installed")
    try:
        opencl = convfind.open("opencl:cpu")
    except ConvfindError as exc:
        pytest.skip(str(exc))
    last_resort = ["direct-naive-fwd"]
    with opencl, convfind.open("hip:0") as rocm:
        for handle in (opencl, rocm):
            assert handle.find(PROBLEM, mode="NORMAL", solvers=last_resort).measured == 1
        for handle in (opencl, rocm):
            again = handle.find(PROBLEM, mode="FAST", solvers=last_resort)
            assert again.measured == 0
            assert again.best.device == handle.target.identity
            np.testing.assert_array_equal(handle.run(again.best, x=X, w=W), Y)


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", c_int32 * 2),
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
        ("context", c_void_p),
        ("deleter", c_void_p),
    )


class RocmTensor:
    """What PyTorch's tensors on ROCm show of themselves, over the stand-in's memory."""

    def __init__(self, array: Array) -> None:
        self.memory = uploaded(array)
        self.like = array
        self.streams: list[int] = []
        self._shape = (c_int64 * array.ndim)(*array.shape)
        kind = (c_int32 * 2)(ROCM, 0)
        address = c_void_p(int(self.memory))
        self._tensor = _Tensor(
            address, kind, array.ndim, 2, 32, 1, self._shape, None, 0, None, None
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return ROCM, 0

    def __dlpack__(self, *, stream: int) -> object:
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = (c_void_p, ctypes.c_char_p, c_void_p), ctypes.py_object
        return new(ctypes.addressof(self._tensor), b"dltensor", None)

    def numpy(self) -> Array:
        """Copy it to the host."""
        return downloaded(self.memory, self.like)


def test_tensors_of_other_libraries_are_used_in_place(standin: Standin) -> None:
    tensors = x, w, y = [RocmTensor(array.astype(np.float32)) for array in (X, W, np.zeros_like(Y))]
    with convfind.open("hip:0") as handle:
        convolution = handle.prepare(found(handle, mode="NORMAL"))
        before = standin.count("allocations")
        convolution.run(x=x, w=w, out=y)
        handle.synchronize()
        assert standin.count("allocations") == before
        np.testing.assert_array_equal(y.numpy(), Y)
        device: Any = handle.session.device
        assert {stream for tensor in tensors for stream in tensor.streams} == {device.stream}
    for tensor in tensors:
        checked(hip.hipFree(tensor.memory))


def test_work_is_enqueued_on_the_callers_stream() -> None:
    stream = checked(hip.hipStreamCreate())
    device = HipBackend().open_native(int(stream))
    assert device.stream == int(stream)
    buffer = device.upload(np.ones(16, np.float32))
    device.fill(buffer, 0)
    result = np.ones(16, np.float32)
    device.read(buffer, result)
    assert not result.any()
    device.close()
    checked(hip.hipStreamDestroy(stream))  # which the device has left alone


@pytest.mark.parametrize(
    ("switch", "message"),
    [
        ({"STANDIN_FAIL_ALLOCATION": "0"}, "hipErrorOutOfMemory"),
        ({"STANDIN_FAIL_LAUNCH": "*"}, "hipErrorLaunchFailure"),
        ({"STANDIN_LOST_DEVICE": "1"}, "hipErrorNoDevice"),
    ],
    ids=["memory", "launch", "device"],
)
def test_faults_are_named_and_the_device_is_given_back(
    standin: Standin, monkeypatch: pytest.MonkeyPatch, switch: dict[str, str], message: str
) -> None:
    with convfind.open("hip:0") as handle:
        best = handle.find(PROBLEM, mode="NORMAL", solvers=["direct-naive-fwd"]).best
        with monkeypatch.context() as patch:
            for name, value in switch.items():
                patch.setenv(name, value)
            with pytest.raises(ConvfindError, match=message):
                handle.run(best, x=np.zeros_like(X), w=W)
        standin.reset()
        np.testing.assert_array_equal(handle.run(best, x=X, w=W), Y)


@pytest.mark.parametrize("way", ["fail", "abort"])
def test_a_failing_compiler_is_a_rejection(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("STANDIN_COMPILE", way)
    pool = CompilePool()  # its processes start with the switch
    monkeypatch.setattr(compiler.Compiler.__init__, "__defaults__", (pool,))
    with convfind.open("hip:0") as handle:
        result = handle.find(PROBLEM, mode="NORMAL", solvers=["direct-naive-fwd"])
    refused = result.rejected["direct-naive-fwd"]
    assert refused.reason is Reason.BUILD_FAILED
    assert ("SIGABRT" in refused.detail) is (way == "abort")
    assert not result.solutions
    pool.close()


def test_without_devices_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_DEVICES", "none")
    with pytest.raises(BackendUnavailableError, match="no hip device found"):
        HipBackend().open()


def test_compiling_for_a_device_that_is_elsewhere(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from convfind.cli import build_program
    from convfind.plugins.registry import default_registry

    words = ["compile", "--target", "gfx908:sramecc+:xnack-", PROBLEM.key]
    done = CliRunner().invoke(build_program(default_registry()), words)
    assert done.exit_code == 0, done.output
    assert "programs compiled" in done.output
    assert any(tmp_path.iterdir())
