"""Large arrays are drawn and compared in pieces, with the same results on any number of cores."""

from __future__ import annotations

import numpy as np
import pytest

from convfind.checking import pieces
from convfind.checking import random_data as drawing
from convfind.checking.random_data import Distribution, random_data
from convfind.checking.tensor_set import same_bytes
from convfind.problem import ConvProblem
from convfind.types import DataType

PLACES = (0, 1, 7, 8, 65535, 65536, (1 << 23) - 1, 1 << 23, 20_000_002)


@pytest.mark.parametrize("size", [1, 7, 8, 65543, 20_000_003])
def test_one_byte_that_differs_is_seen_wherever_it_is(size: int) -> None:
    first = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    other = first.copy()
    assert same_bytes(first, other)
    for place in (size - 1, *(one for one in PLACES if one < size)):
        other[place] ^= 128
        assert not same_bytes(first, other)
        other[place] ^= 128
    assert same_bytes(first, other)


def test_nan_is_the_same_as_itself_and_zero_is_not_minus_zero() -> None:
    values = np.array([np.nan, 1.0, 0.0], np.float32)
    assert same_bytes(values, values.copy())
    assert not same_bytes(values, np.array([np.nan, 1.0, -0.0], np.float32))


@pytest.mark.parametrize("distribution", ["uniform", "normal", "wide", "clipped"])
@pytest.mark.parametrize("dtype", [DataType.FLOAT32, DataType.BFLOAT16, DataType.INT8])
def test_data_are_the_same_on_any_number_of_cores(
    distribution: Distribution, dtype: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_DRAWN_AT_ONCE", 1000)
    problem = ConvProblem.forward(x=(3, 5, 31, 37), w=(4, 5, 3, 3), dtype=dtype)
    drawn = []
    for cores in (1, 2, 7):
        monkeypatch.setattr(pieces, "usable_cpus", lambda cores=cores: cores)
        drawn.append(random_data(problem, 5, distribution))
    for other in drawn[1:]:
        for one, same in zip(drawn[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
    x = drawn[0][0].astype(np.float64).reshape(-1)
    rows = x[: x.size // 1000 * 1000].reshape(-1, 1000)
    assert len(np.unique(rows, axis=0)) == len(rows), "each piece has numbers of its own"


def test_what_one_piece_raises_is_raised() -> None:
    def fail(piece: slice) -> None:
        if piece.start == 4:
            raise ValueError("the third")

    with pytest.raises(ValueError, match="the third"):
        pieces.side_by_side(fail, pieces.slices_of(9, 2))
    assert pieces.slices_of(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert pieces.slices_of(0, 2) == []
