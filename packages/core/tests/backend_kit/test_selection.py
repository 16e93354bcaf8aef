"""Selectors that pick a device."""

from __future__ import annotations

import pytest

from convfind.backend_kit.selection import select
from convfind.device.target import DeviceKind, Target
from convfind.errors import DeviceError


def target(
    name: str, kind: DeviceKind, vendor: str, platform: str, driver: str = "1", arch: str = "arch"
) -> Target:
    return Target("opencl", name, kind, vendor, platform, arch, 4, driver)


H200 = target("NVIDIA H200", DeviceKind.GPU, "NVIDIA Corporation", "NVIDIA CUDA", arch="sm_90")
ARC = target("Arc A770", DeviceKind.GPU, "Intel(R) Corporation", "Intel(R) OpenCL Graphics")
INTEL = target("AMD EPYC", DeviceKind.CPU, "Intel(R) Corporation", "Intel(R) OpenCL")
POCL = target("pthread", DeviceKind.CPU, "AuthenticAMD", "Portable Computing Language", "PoCL 3")
TARGETS = (H200, ARC, INTEL, POCL)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", H200),
        ("0", H200),
        ("3", POCL),
        ("cpu", INTEL),
        ("GPU", H200),
        ("nvidia", H200),
        ("SM_90", H200),
        ("h200", H200),
        ("intel", ARC),
        ("Intel(R) OpenCL", ARC),
        ("epyc", INTEL),
        ("pocl", POCL),
        (" portable ", POCL),
    ],
)
def test_selectors(selector: str, expected: Target) -> None:
    assert TARGETS[select("opencl", selector, TARGETS)] is expected


@pytest.mark.parametrize("selector", ["4", "99", "accelerator", "radeon", "-1"])
def test_a_selector_without_a_match_lists_the_devices(selector: str) -> None:
    with pytest.raises(DeviceError, match="no opencl device matches") as caught:
        select("opencl", selector, TARGETS)
    assert repr(selector) in str(caught.value)
    assert "0: NVIDIA H200 (gpu, NVIDIA CUDA, sm_90)" in str(caught.value)
    assert "3: pthread (cpu, Portable Computing Language, arch)" in str(caught.value)
