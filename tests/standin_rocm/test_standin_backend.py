"""The HIP backend as users meet it: finds, streams, faults, nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hip", reason="hip-python is not installed")
pytest.importorskip("convfind_backend_hip", reason="the HIP backend is not installed")

from standin import Standin
from standin_kernels import checked, hip

import convfind
from convfind.checking.random_data import integer_data
from convfind.checking.reference import reference_convolution
from convfind.errors import BackendUnavailableError, ConvfindError
from convfind.handle import Handle
from convfind.reasons import Reason
from convfind_backend_hip import HipBackend, compiler
from convfind_backend_hip.compile_pool import CompilePool

CYCLES = 10_000
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
    for _ in range(8):
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


def test_compiling_without_a_device_serves_one_of_its_kind() -> None:
    from click.testing import CliRunner

    from convfind.cli import build_program
    from convfind.plugins.registry import default_registry

    words = ["compile", "--target", "gfx90a:sramecc+:xnack-", PROBLEM.key]
    done = CliRunner().invoke(build_program(default_registry()), words)
    assert done.exit_code == 0, done.output
    assert "programs compiled" in done.output
    with convfind.open("hip:0") as there:
        result = there.find(PROBLEM, mode="NORMAL", solvers=["direct-naive-fwd"])
        assert result.measured == 1
        assert result.compiled == 0
    del there
