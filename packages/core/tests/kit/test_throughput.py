"""The throughput index on CPUs: shares of the peak, and what launches cost."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from convfind.device.target import DeviceKind
from convfind.kit.throughput import (
    cpu_index,
    fill,
    gpu_index,
    index_ms,
    packing_ms,
    peak_seconds,
    product_index,
)
from convfind.problem import ConvProblem
from convfind.testing import MOCK_TARGET

LARGE = ConvProblem.forward((64, 256, 56, 56), (256, 256, 3, 3), padding=1)
SMALL = ConvProblem.forward((1, 8, 7, 7), (8, 8, 1, 1))


def test_large_problems_reach_the_share_of_their_arithmetic() -> None:
    assert cpu_index(LARGE, MOCK_TARGET, LARGE.flops / 0.8, 2) == pytest.approx(0.8, rel=0.01)


def test_small_problems_are_launches() -> None:
    one, two = (cpu_index(SMALL, MOCK_TARGET, SMALL.flops, count) for count in (1, 2))
    assert two < one < 0.1
    assert one == pytest.approx(2 * two, rel=0.1)


def test_weights_are_packed_by_all_cores_and_by_the_bandwidth_of_a_gpu() -> None:
    cpu = replace(MOCK_TARGET, identity="", compute_units=2)
    assert packing_ms(38_000_000, cpu) == pytest.approx(2.66)
    gpu = replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU, compute_units=132)
    assert packing_ms(48_000_000, gpu) == pytest.approx(0.01)
    assert packing_ms(0, cpu) == packing_ms(0, gpu) == 0.0


def test_a_launch_costs_every_core_its_time() -> None:
    more = replace(MOCK_TARGET, identity="", compute_units=8 * MOCK_TARGET.compute_units)
    few, many = (cpu_index(SMALL, target, SMALL.flops) for target in (MOCK_TARGET, more))
    assert many < few / 4


@pytest.mark.parametrize(
    ("size", "unit", "share"), [(16, 16, 1.0), (17, 16, 17 / 32), (1, 4, 0.25)]
)
def test_units_that_are_filled(size: int, unit: int, share: float) -> None:
    assert fill(size, unit) == share


def test_a_gpus_index_is_its_share_of_the_peak_and_never_nothing() -> None:
    peak = peak_seconds(LARGE.flops, MOCK_TARGET)
    assert gpu_index(LARGE, MOCK_TARGET, 2 * peak) == pytest.approx(0.5)
    assert 0 < gpu_index(LARGE, MOCK_TARGET, 1e9 * peak) < 0.05


def test_an_index_promises_a_time() -> None:
    gpu = replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU)
    assert index_ms(LARGE.flops, gpu, gpu_index(LARGE, gpu, 2e-3)) == pytest.approx(2.0)
    cpu = replace(MOCK_TARGET, identity="", kind=DeviceKind.CPU)
    empty = cpu_index(SMALL, cpu, 0.0, 5)
    assert index_ms(SMALL.flops, cpu, empty) == pytest.approx(5 * 2e-3), "launches of 2 us"


def test_a_product_hides_most_of_memory_but_is_not_quicker() -> None:
    peak = peak_seconds(LARGE.flops, MOCK_TARGET)
    long, short = (product_index(LARGE, MOCK_TARGET, s, 0.8) for s in (2 * peak, 0.0))
    assert 0.25 < long < 0.5
    assert product_index(LARGE, MOCK_TARGET, 0.0, 0.4) == pytest.approx(short / 2)
    assert product_index(LARGE, MOCK_TARGET, 2 * peak, 0.8, peak) < long


@pytest.mark.parametrize("kind", [DeviceKind.CPU, DeviceKind.GPU])
def test_times_of_any_two_indices_have_a_ratio(kind: DeviceKind) -> None:
    target = replace(MOCK_TARGET, identity="", kind=kind)
    info = sys.float_info
    fast, usual, slow = (index_ms(LARGE.flops, target, one) for one in (info.max, 0.5, info.min))
    assert 0 < fast / usual < usual / usual < slow / usual < slow / fast < float("inf")
