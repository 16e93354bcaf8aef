"""Devices for tests: a stand-in for the driver, NVRTC, and a GPU where there is one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from convfind.errors import BackendUnavailableError
from convfind_backend_cuda import CudaBackend
from convfind_backend_cuda.backend import check_compiler
from convfind_backend_cuda.device import CudaDevice

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]

from cuda_standin import TARGET, StandinDriver, standin


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandinDriver]:
    """A driver over the host's memory in the place of CUDA's."""
    with standin(monkeypatch) as replaced:
        yield replaced


@pytest.fixture
def device(driver: StandinDriver) -> Iterator[CudaDevice]:
    """A device of the stand-in, on a stream of its own."""
    opened = CudaDevice(TARGET, 0, 0x50)
    driver.journal.clear()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def nvrtc() -> None:
    """Skip where NVRTC is missing, or fail for CONVFIND_REQUIRE_NVRTC=1."""
    try:
        check_compiler()
    except BackendUnavailableError as exc:
        if os.environ.get("CONVFIND_REQUIRE_NVRTC") == "1":
            pytest.fail(str(exc))
        pytest.skip(str(exc))


@pytest.fixture(scope="session")
def gpu() -> Iterator[CudaDevice]:
    """The machine's first GPU; tests that need one are skipped where there is none."""
    try:
        opened = CudaBackend().open()
    except BackendUnavailableError as exc:
        pytest.skip(str(exc))
    yield opened
    opened.close()
