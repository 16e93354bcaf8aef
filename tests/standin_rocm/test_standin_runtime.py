"""Memory, launches, faults and the compiler of the stand-in."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from standin import Standin
from standin_kernels import (
    CompileError,
    HipError,
    Kernel,
    checked,
    compiled,
    downloaded,
    hip,
    run,
    uploaded,
)

WRITE = 'extern "C" __global__ void put(float *y, int i) { y[i] = 1; }'


def test_memory_is_undefined_at_first_and_counted(standin: Standin) -> None:
    before = standin.live()["allocations"]
    memory = checked(hip.hipMalloc(400))
    assert standin.live()["allocations"] == before + 1
    assert np.isnan(downloaded(memory, np.zeros(100, np.float32))).all()
    checked(hip.hipFree(memory))
    with pytest.raises(HipError, match="hipErrorInvalidValue"):
        checked(hip.hipFree(memory))


def test_a_copy_past_the_end_is_refused() -> None:
    memory = uploaded(np.zeros(4, np.float32))
    with pytest.raises(HipError, match="hipErrorInvalidValue"):
        downloaded(memory, np.zeros(5, np.float32))
    checked(hip.hipFree(memory))


@pytest.mark.parametrize(
    ("name", "value"), [("STANDIN_MEMORY", "99"), ("STANDIN_FAIL_ALLOCATION", "0")]
)
def test_out_of_memory(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(HipError, match="hipErrorOutOfMemory"):
        checked(hip.hipMalloc(100))


def test_a_lost_device(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = checked(hip.hipMalloc(16))
    monkeypatch.setenv("STANDIN_LOST_DEVICE", "1")
    with pytest.raises(HipError, match="hipErrorNoDevice"):
        checked(hip.hipDeviceSynchronize())
    assert int(hip.hipFree(memory)[0]) != 0  # and yet it is gone


def test_a_failed_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAIL_LAUNCH", "put")
    with pytest.raises(HipError, match="hipErrorLaunchFailure"):
        run(WRITE, "put", np.zeros(4, np.float32), numbers=[0])


@pytest.mark.parametrize("index", [4, 10**9])
def test_a_kernel_that_leaves_its_memory_breaks_the_device(standin: Standin, index: int) -> None:
    kernel = Kernel(compiled(WRITE), "put")
    kernel.close()
    with pytest.raises(HipError, match="hipErrorIllegalAddress"):
        run(WRITE, "put", np.zeros(4, np.float32), numbers=[index])
    with pytest.raises(HipError, match="hipErrorIllegalAddress"):
        checked(hip.hipMalloc(16))
    assert "allocation" in standin.reason()


def test_limits_of_a_launch() -> None:
    with pytest.raises(HipError, match="hipErrorInvalidConfiguration"):
        run(WRITE, "put", np.zeros(4, np.float32), numbers=[0], block=1025)
    with pytest.raises(HipError, match="hipErrorInvalidValue"):
        run(WRITE, "put", np.zeros(4, np.float32), numbers=[0], lds=65537)


def test_code_for_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compiled(WRITE, "gfx90a:xnack+")
    with pytest.raises(HipError, match="hipErrorNoBinaryForGpu"):
        Kernel(code, "put")
    monkeypatch.setenv("STANDIN_DEVICES", "gfx1030,gfx90a:xnack+")
    assert checked(hip.hipGetDeviceCount()) == 2
    assert checked(hip.hipGetDeviceProperties(0)).warpSize == 32
    with pytest.raises(HipError, match="hipErrorNoBinaryForGpu"):
        Kernel(code, "put")


def test_modules_loaded_at_once_stay_apart() -> None:
    ones, twos = (
        Kernel(compiled(f'extern "C" __global__ void put(float *y) {{ y[0] = {number}; }}'), "put")
        for number in (1, 2)
    )
    memory = uploaded(np.zeros(1, np.float32))
    for kernel, number in ((ones, 1), (twos, 2), (ones, 1)):
        kernel.launch((memory,))
        assert downloaded(memory, np.zeros(1, np.float32))[0] == number
    ones.close()
    twos.close()
    checked(hip.hipFree(memory))


def test_ten_thousand_cycles_leave_nothing(standin: Standin) -> None:
    before = standin.live()
    for _ in range(10_000):
        memory, stream = checked(hip.hipMalloc(64)), checked(hip.hipStreamCreate())
        event = checked(hip.hipEventCreate())
        checked(hip.hipEventRecord(event, stream))
        checked(hip.hipEventDestroy(event))
        checked(hip.hipStreamDestroy(stream))
        checked(hip.hipFree(memory))
    assert standin.live() == before


def test_the_log_names_file_and_line() -> None:
    with pytest.raises(CompileError, match=r"kernel\.hip:2:.*nonsense"):
        compiled("// first line\nnonsense here;")


def test_headers_and_defines() -> None:
    source = '#include "folder/part.h"\nextern "C" __global__ void f(int *y) { y[0] = PART + N; }'
    code = compiled(source, options=["-DN=3", "-O3"], headers={"folder/part.h": "#define PART 4"})
    kernel = Kernel(code, "f")
    memory = uploaded(np.zeros(1, np.int32))
    kernel.launch((memory,))
    assert downloaded(memory, np.zeros(1, np.int32))[0] == 7
    kernel.close()
    checked(hip.hipFree(memory))


def test_an_unknown_option_and_an_unknown_processor_are_errors() -> None:
    with pytest.raises(CompileError, match="--nonsense"):
        compiled(WRITE, options=["--nonsense"])
    with pytest.raises(CompileError, match="gfx1"):
        compiled(WRITE, "gfx1")


@pytest.mark.parametrize("switch", [{"STANDIN_OLD_COMPILER": "1"}, {"STANDIN_COMPILE": "abort"}])
def test_a_compiler_that_aborts(switch: dict[str, str]) -> None:
    script = "from standin_kernels import compiled; compiled('', 'gfx942')"
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | paths | switch,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -6
