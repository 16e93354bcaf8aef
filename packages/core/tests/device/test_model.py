"""The model of a GPU follows from its name and architecture, never from its runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.device.model import MEASURED, DeviceModel
from convfind.device.target import DeviceKind, Target
from convfind.kit.throughput import memory_seconds, peak_seconds

H200 = Target(
    *("opencl", "NVIDIA H200", DeviceKind.GPU, "NVIDIA Corporation", "NVIDIA CUDA"),
    arch="sm_90",
    compute_units=132,
    driver="1",
)


def test_an_h100_is_an_h200_with_less_bandwidth() -> None:
    h100 = DeviceModel.of(replace(H200, name="NVIDIA H100 80GB HBM3"))
    assert h100.flops == DeviceModel.of(H200).flops
    assert h100.bandwidth * 132 == pytest.approx(3.35e12)
    assert DeviceModel.of(H200).bandwidth * 132 == pytest.approx(4.8e12)


def test_features_of_an_architecture_do_not_make_another_one() -> None:
    plain, full = (replace(H200, arch=arch) for arch in ("gfx90a", "gfx90a:sramecc+:xnack-"))
    assert DeviceModel.of(plain) == DeviceModel.of(full) != MEASURED
    assert full.is_amd
    assert not H200.is_amd


def test_an_unknown_gpu_has_the_measured_model() -> None:
    unknown = replace(H200, arch="sm_999", name="")
    assert DeviceModel.of(unknown) is MEASURED
    assert DeviceModel.known(unknown) is None


def test_the_runtime_does_not_matter() -> None:
    assert DeviceModel.of(replace(H200, backend="cuda")) is DeviceModel.of(H200)


def test_seconds_on_an_h200_are_those_of_its_data_sheet() -> None:
    assert peak_seconds(67e12, H200) == pytest.approx(1, rel=0.01)
    assert memory_seconds(4.8e12, H200, 0.5) == pytest.approx(2)


def test_memory_takes_longer_by_as_much_as_a_device_has_less_of_it_for_its_arithmetic() -> None:
    a100 = DeviceModel.of(replace(H200, arch="sm_80"))
    less = (MEASURED.bandwidth / MEASURED.flops) / (a100.bandwidth / a100.flops)
    found = memory_seconds(1e9, replace(H200, arch="sm_80"), 1)
    assert found == pytest.approx(less * memory_seconds(1e9, H200, 1))
