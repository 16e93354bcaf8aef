"""Kept numbers: the same for equal problems, others for others, and never too many bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convfind.problem import ConvProblem
from convfind.testing.kept_numbers import KeptNumbers
from convfind.testing.numbers import Numbers

PROBLEM = ConvProblem.forward(x=(1, 4, 8, 8), w=(4, 4, 1, 1))  # 2,112 bytes


def test_equal_problems_share_numbers_and_others_do_not() -> None:
    kept = KeptNumbers(2**20, 2**20)
    numbers = kept.get(Numbers.random, PROBLEM, 1)
    assert kept.get(Numbers.random, replace(PROBLEM), 1) is numbers
    strides = replace(PROBLEM, x_strides=(300, 70, 8, 1))
    others = [
        *(kept.get(Numbers.random, other, 1) for other in (replace(PROBLEM, beta=1.0), strides)),
        kept.get(Numbers.random, PROBLEM, 2),
        kept.get(Numbers.clipped, PROBLEM, 1),
    ]
    assert all(other is not numbers for other in others)
    assert [other.problem for other in others[:2]] == [replace(PROBLEM, beta=1.0), strides]
    assert not np.array_equal(others[2].values["x"], numbers.values["x"])


def test_those_asked_for_last_are_kept_in_so_many_bytes() -> None:
    kept = KeptNumbers(int(3 * PROBLEM.traffic), 2**20)
    first, second, third = (kept.get(Numbers.random, PROBLEM, seed) for seed in range(3))
    assert kept.get(Numbers.random, PROBLEM, 0) is first
    kept.get(Numbers.random, PROBLEM, 3)
    assert len(kept) == 3
    assert kept.get(Numbers.random, PROBLEM, 0) is first
    assert kept.get(Numbers.random, PROBLEM, 2) is third
    assert kept.get(Numbers.random, PROBLEM, 1) is not second
    for seed in range(100):
        kept.get(Numbers.random, PROBLEM, seed)
    assert len(kept) == 3


def test_large_problems_are_not_kept() -> None:
    kept = KeptNumbers(2**20, int(PROBLEM.traffic) - 1)
    assert kept.get(Numbers.random, PROBLEM, 1) is not kept.get(Numbers.random, PROBLEM, 1)
    assert len(kept) == 0
