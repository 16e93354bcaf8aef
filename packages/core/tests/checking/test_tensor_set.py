"""Comparing memory."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.checking.tensor_set import same_bytes


@pytest.mark.parametrize("size", [1, 7, 4096, (1 << 24) - 1, (1 << 24) + 9])
@pytest.mark.parametrize("at", [0, 0.5, 1])
def test_one_bit_that_differs_shows_wherever_it_is(size: int, at: float) -> None:
    one = np.random.default_rng(0).integers(256, size=size, dtype=np.uint8)
    other = one.copy()
    assert same_bytes(one, other)
    other[int(at * (size - 1))] ^= 1
    assert not same_bytes(one, other)


def test_bytes_count_and_not_what_they_mean() -> None:
    nan = np.array([np.nan, 0.0], np.float32)
    assert same_bytes(nan, nan.copy())
    assert not same_bytes(nan, np.array([np.nan, -0.0], np.float32))
    whole = np.arange(16, dtype=np.int32).reshape(4, 4)
    assert same_bytes(whole[:, 1], np.array([1, 5, 9, 13], np.int32)), "with gaps"
    assert not same_bytes(whole.astype(np.int8)[:, 1], np.array([1, 2, 3, 4], np.int8))
    assert same_bytes(whole[:0], whole[:0])
