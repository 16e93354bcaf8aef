"""The throughput index on CPUs: shares of the peak, and what launches cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.kit.throughput import cpu_index, fill
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


def test_a_launch_costs_every_core_its_time() -> None:
    more = replace(MOCK_TARGET, identity="", compute_units=8 * MOCK_TARGET.compute_units)
    few, many = (cpu_index(SMALL, target, SMALL.flops) for target in (MOCK_TARGET, more))
    assert many < few / 4


@pytest.mark.parametrize(
    ("size", "unit", "share"), [(16, 16, 1.0), (17, 16, 17 / 32), (1, 4, 0.25)]
)
def test_units_that_are_filled(size: int, unit: int, share: float) -> None:
    assert fill(size, unit) == share
