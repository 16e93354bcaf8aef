"""Devices in their order."""

from __future__ import annotations

import logging

import pytest
from opencl_testing import NUMBERS

from convfind.device.target import DeviceKind, Target
from convfind_backend_opencl import backend as backend_module
from convfind_backend_opencl.backend import OpenCLBackend


def target(name: str, kind: DeviceKind, vendor: str, platform: str, driver: str = "1") -> Target:
    return Target("opencl", name, kind, vendor, platform, "arch", 4, driver)


H200 = target("NVIDIA H200", DeviceKind.GPU, "NVIDIA Corporation", "NVIDIA CUDA")
SMALL = Target("opencl", "T4", DeviceKind.GPU, "NVIDIA Corporation", "NVIDIA CUDA", "sm_75", 2, "1")
ARC = target("Arc A770", DeviceKind.GPU, "Intel(R) Corporation", "Intel(R) OpenCL Graphics")
INTEL = target("AMD EPYC", DeviceKind.CPU, "Intel(R) Corporation", "Intel(R) OpenCL")
POCL = target("pthread", DeviceKind.CPU, "AuthenticAMD", "Portable Computing Language", "PoCL 3")


def test_the_best_device_comes_first() -> None:
    shuffled = (POCL, ARC, SMALL, INTEL, H200)
    expected = (H200, SMALL, ARC, INTEL, POCL)
    assert tuple(sorted(shuffled, key=backend_module._rank)) == expected


def test_every_device_opens_by_its_number(backend: OpenCLBackend) -> None:
    if NUMBERS[0].marks:
        pytest.skip("no opencl device")
    targets = backend.targets()
    for number, expected in enumerate(targets):
        device = backend.open(str(number))
        assert device.target == expected
        device.close()
    assert backend.open().target == targets[0]


def test_a_platform_that_fails_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import pyopencl as cl

    if NUMBERS[0].marks:
        pytest.skip("no opencl device")

    class Failing:
        name = "Failing Platform"
        int_ptr = 0

        def get_devices(self) -> list[cl.Device]:
            raise cl.RuntimeError("clGetDeviceIDs failed: OUT_OF_HOST_MEMORY")

    platforms = cl.get_platforms()
    expected = OpenCLBackend().targets()
    monkeypatch.setattr(cl, "get_platforms", lambda: [Failing(), *platforms])
    with caplog.at_level(logging.WARNING):
        assert OpenCLBackend().targets() == expected
    assert "Failing Platform is left out" in caplog.text
