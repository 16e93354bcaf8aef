"""Parts of a ring of random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.checking.random_numbers import (
    COUNT,
    Distribution,
    Part,
    RandomNumbers,
    ring_of,
    start_of,
)
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


def test_what_is_seen_are_the_ring_s_own_numbers_which_nobody_writes() -> None:
    ring = RandomNumbers(DataType.FLOAT32, "normal", 3)
    seen = ring.seen(COUNT - 9, 9)
    np.testing.assert_array_equal(seen, ring.part(COUNT - 9, 9))
    assert np.shares_memory(seen, ring.ring)
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 0


def test_parts_that_fit_into_a_ring_lie_in_one_piece_at_a_page() -> None:
    numbers = ring_of(DataType.FLOAT32, "uniform", 0)
    for count in (1, 1000, 3_211_264):
        starts = {start_of(count, drawn) for drawn in range(0, COUNT, 9973)}
        assert len(starts) == 256, "nobody knows which"
        assert all(start % 1024 == 0 for start in starts)
        assert all(Part(numbers, start, count).is_in_one_piece for start in starts)
    assert start_of(COUNT - 5, COUNT - 1) == COUNT - 1 - (COUNT - 1) % 1024
    assert not Part(numbers, start_of(COUNT - 5, COUNT - 1), COUNT - 5).is_in_one_piece


def test_parts_of_any_size_begin_at_a_page() -> None:
    for count in (1, 3_211_264, COUNT - 262_144, 4_000_000, COUNT - 5, COUNT, 3 * COUNT):
        starts = {start_of(count, drawn) for drawn in range(0, COUNT, 997)}
        assert all(start % 1024 == 0 for start in starts), count
        assert len(starts) >= 256, "nobody knows which"


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
