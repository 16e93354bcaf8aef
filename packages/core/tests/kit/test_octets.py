"""Groups in vectors of eight channels: which of them are taken, and in tiles of what size."""

from __future__ import annotations

import pytest

from convfind.kit.octets import OCTET_ROWS, judge_octets, vectors_of_filters
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Rejected


@pytest.mark.parametrize("sizes", [(8, 8), (24, 64), (64, 8)])
def test_few_whole_vectors_are_taken(sizes: tuple[int, int]) -> None:
    assert judge_octets(*sizes) is APPLICABLE


@pytest.mark.parametrize("sizes", [(12, 8), (8, 4), (72, 8), (8, 128)])
def test_others_are_not(sizes: tuple[int, int]) -> None:
    answer = judge_octets(*sizes)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.CHANNELS


@pytest.mark.parametrize(("filters", "vectors"), [(8, 1), (16, 2), (24, 3), (48, 3), (64, 2)])
def test_a_tile_has_the_most_vectors_that_divide_a_group(filters: int, vectors: int) -> None:
    assert vectors_of_filters(filters) == vectors


@pytest.mark.parametrize(("vectors", "rows"), OCTET_ROWS.items())
def test_a_tile_fits_sixteen_registers(vectors: int, rows: int) -> None:
    assert vectors * rows + vectors + 1 <= 16
