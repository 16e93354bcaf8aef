"""Parts of a ring of random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.checking.random_numbers import COUNT, Distribution, RandomNumbers, ring_of
from convfind.types import DataType


def test_a_part_goes_on_where_the_ring_begins() -> None:
    ring = RandomNumbers(DataType.FLOAT32, "uniform", 1)
    end, begin = ring.part(COUNT - 3, 3), ring.part(0, 7)
    np.testing.assert_array_equal(ring.part(COUNT - 3, 10), np.concatenate([end, begin]))


def test_a_part_that_is_longer_than_the_ring_repeats_it() -> None:
    ring = RandomNumbers(DataType.INT8, "uniform", 1)
    part = ring.part(1_000_003, 2 * COUNT + 5)
    np.testing.assert_array_equal(part[: COUNT + 5], part[COUNT:])
    assert len(np.unique(part[:COUNT])) == 256


@pytest.mark.parametrize(("start", "count"), [(0, 0), (COUNT - 1, 1), (262_143, 2)])
def test_parts_of_any_size(start: int, count: int) -> None:
    part = RandomNumbers(DataType.FLOAT32, "clipped", 2).part(start, count)
    whole = RandomNumbers(DataType.FLOAT32, "clipped", 2).part(0, COUNT)
    np.testing.assert_array_equal(part, whole[start : start + count])


def test_what_is_returned_is_nobody_elses_memory() -> None:
    ring = RandomNumbers(DataType.FLOAT32, "normal", 3)
    part = ring.part(5, 9)
    before = part.copy()
    part[...] = 0
    np.testing.assert_array_equal(ring.part(5, 9), before)


def test_rings_of_different_seeds_have_different_numbers() -> None:
    one, other = (ring_of(DataType.FLOAT32, "uniform", seed).part(0, 100) for seed in (0, 1))
    assert not (one == other).any()


def test_a_check_of_all_types_draws_each_ring_once() -> None:
    """Five types, two distributions, three tensors, in the order of problems: types alternate."""
    types = [dtype for dtype in DataType if dtype is not DataType.INT32]
    kinds: tuple[Distribution, ...] = ("uniform", "clipped")
    asked = [(dtype, kind, ring) for ring in range(3) for kind in kinds for dtype in types]
    first = [ring_of(*words) for words in asked]
    assert all(ring_of(*words) is ring for words, ring in zip(asked, first, strict=True))
