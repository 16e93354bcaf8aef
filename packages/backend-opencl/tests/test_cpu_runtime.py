"""Runtimes that pip has installed: found without any setting, and only then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from convfind_backend_opencl import cpu_runtime
from convfind_backend_opencl.cpu_runtime import (
    intel_runtime,
    registered_runtimes,
    unregistered_runtimes,
)

PLATFORMS = """
import os
import pyopencl
from convfind.errors import BackendUnavailableError
from convfind_backend_opencl import OpenCLBackend

before = dict(os.environ)
try:
    print(*sorted({target.platform for target in OpenCLBackend().targets()}), sep="|")
except BackendUnavailableError as exc:
    print(exc)
assert before == dict(os.environ)
"""
needs_intel = pytest.mark.skipif(intel_runtime() is None, reason="intel-opencl-rt is not installed")


@needs_intel
def test_the_runtime_is_found_and_nothing_stays_behind(
    python: Callable[..., str], tmp_path: Path
) -> None:
    platforms = python(PLATFORMS, TMPDIR=str(tmp_path))
    assert "Intel(R) OpenCL" in platforms.split("|")
    assert list(tmp_path.glob("convfind-icd-*")) == []


@needs_intel
def test_the_systems_runtimes_stay_visible(python: Callable[..., str]) -> None:
    if not any("pocl" in library for library in registered_runtimes().values()):
        pytest.skip("no PoCL in /etc/OpenCL/vendors")
    assert python(PLATFORMS).split("|") == ["Intel(R) OpenCL", "Portable Computing Language"]


def test_a_setting_of_the_user_stands(python: Callable[..., str], tmp_path: Path) -> None:
    message = python(PLATFORMS, OCL_ICD_VENDORS=str(tmp_path))
    assert "backend-opencl[cpu]" in message
    assert "driver" in message


def test_a_setting_that_hides_all_runtimes_is_named(
    python: Callable[..., str], tmp_path: Path
) -> None:
    message = python(PLATFORMS, OCL_ICD_VENDORS=str(tmp_path))
    assert f"unset OCL_ICD_VENDORS, which is {tmp_path}" in message


@needs_intel
def test_a_path_of_nothing_is_no_setting(python: Callable[..., str], tmp_path: Path) -> None:
    found = python(PLATFORMS, OCL_ICD_VENDORS=str(tmp_path / "gone")).split("|")
    assert "Intel(R) OpenCL" in found


ASKED_BEFORE = """
import os
import numpy as np
import pyopencl

os.environ["OCL_ICD_VENDORS"] = "/nonexistent"
try:
    print(pyopencl.get_platforms())
except pyopencl.Error:
    pass  # the loader has read its list, which is empty, and will not read it again
del os.environ["OCL_ICD_VENDORS"]

from convfind_backend_opencl import OpenCLBackend

backend = OpenCLBackend()
device = backend.open("intel")
buffer = device.upload(np.arange(8, dtype=np.float32))
result = np.empty(8, np.float32)
device.read(buffer, result)
names = [target.platform for target in backend.targets()]
assert len(names) == len(set(names))
print(device.target.platform, *result.astype(int))
"""


@needs_intel
def test_the_runtime_is_found_where_another_library_asked_the_loader_first(
    python: Callable[..., str],
) -> None:
    assert python(ASKED_BEFORE) == "Intel(R) OpenCL 0 1 2 3 4 5 6 7"


@needs_intel
def test_a_user_may_name_the_runtime(python: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "mine.icd").write_text(f"{intel_runtime()}\n")
    assert python(PLATFORMS, OCL_ICD_VENDORS=str(tmp_path)) == "Intel(R) OpenCL"


@needs_intel
def test_a_list_of_libraries_stands(python: Callable[..., str]) -> None:
    added = python(PLATFORMS, OCL_ICD_FILENAMES=str(intel_runtime())).split("|")
    assert "Intel(R) OpenCL" in added
    assert "Intel(R) OpenCL" not in python(PLATFORMS, OCL_ICD_FILENAMES="nowhere.so").split("|")


@needs_intel
def test_a_registered_runtime_is_not_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    intel = str(intel_runtime())
    assert intel in unregistered_runtimes({})
    assert intel not in unregistered_runtimes({"intel.icd": "/opt/intel/libintelocl.so"})
    assert intel in unregistered_runtimes({"emulator.icd": "/opt/intel/libintelocl_emu.so"})


def test_a_runtime_that_cannot_be_loaded_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    broken = tmp_path / "libintelocl.so"
    broken.write_text("not a library")
    monkeypatch.setattr(cpu_runtime, "intel_runtime", lambda: broken)
    monkeypatch.setattr(cpu_runtime, "registered_runtimes", dict)
    cpu_runtime.unlisted_platforms(())
    (told,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert str(broken) in told
    assert "open a device before it is imported" in told


def test_registered_runtimes_exist() -> None:
    for library in registered_runtimes().values():
        assert not Path(library).is_absolute() or Path(library).exists()


def test_importing_the_package_leaves_opencl_alone(python: Callable[..., str]) -> None:
    script = "import sys, convfind_backend_opencl.hooks as h; print('pyopencl' in sys.modules)"
    assert python(script) == "False"
