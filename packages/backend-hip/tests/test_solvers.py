"""Solvers on the HIP device that there is, the GEMM fallback first of all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from convfind.backend_kit.library_gemm.solvers import library_gemm_solvers
from convfind.errors import BackendUnavailableError, DeviceError, LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver import Solver
from convfind.solver.recipe import Fill, Memory
from convfind.testing import check_solver
from convfind_backend_hip.backend import HipBackend
from convfind_backend_hip.device import HipDevice

SOLVERS = library_gemm_solvers("hip", features=["rocblas"])


@pytest.fixture(scope="module")
def device() -> Iterator[HipDevice]:
    try:
        opened = HipBackend().open()
    except BackendUnavailableError as exc:
        pytest.skip(str(exc))
    yield opened
    opened.close()


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.solver_id)
def test_the_fallback_is_right(solver: Solver, device: HipDevice) -> None:
    if not device.target.has("rocblas"):
        pytest.skip("rocBLAS is not installed")
    assert not check_solver(solver, device).failures


def test_memory_comes_back_as_it_went(device: HipDevice) -> None:
    array = np.arange(1000, dtype=np.int16)
    buffer = device.upload(array)
    result = np.empty_like(array)
    device.read(buffer, result)
    np.testing.assert_array_equal(result, array)
    with pytest.raises(DeviceError, match="does not fit"):
        device.write(buffer, np.zeros(2000, np.int16))


def test_fill_is_timed_and_stays_inside(device: HipDevice) -> None:
    buffer = device.upload(np.ones(64, np.uint8))
    invoker = device.invoker([Fill(Memory.Y, 8, 8)], {})
    assert invoker.timed(InvokeArgs(y=buffer)) >= 0.0
    result = np.empty(64, np.uint8)
    device.read(buffer, result)
    np.testing.assert_array_equal(np.flatnonzero(result == 0), np.arange(8, 16))
    with pytest.raises(LaunchError, match="missing"):
        invoker(InvokeArgs())


def test_memory_has_any_name(device: HipDevice) -> None:
    buffer = device.upload(np.ones(64, np.uint8))
    invoker = device.invoker([Fill("bias", 8, 8)], {})
    invoker(InvokeArgs(bias=buffer))
    result = np.empty(64, np.uint8)
    device.read(buffer, result)
    np.testing.assert_array_equal(np.flatnonzero(result == 0), np.arange(8, 16))
    with pytest.raises(LaunchError, match="use bias, which is missing"):
        invoker(InvokeArgs(y=buffer))
    with pytest.raises(LaunchError, match="letters, digits"):
        device.invoker([Fill("layer.weight", 0, 4)], {})


def test_a_closed_device_refuses_work() -> None:
    try:
        opened = HipBackend().open()
    except BackendUnavailableError as exc:
        pytest.skip(str(exc))
    opened.close()
    opened.close()
    with pytest.raises(DeviceError, match="closed"):
        opened.allocate(1)
