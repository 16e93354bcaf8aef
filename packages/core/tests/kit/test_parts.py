"""Parts are as many as are wanted and fit, and work is divided evenly."""

from __future__ import annotations

import pytest

from convfind.kit.parts import even_parts, parts_within


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 5), (500, 5), (499, 4), (200, 2), (199, 1), (0, 1), (-7, 1)]
)
def test_parts_are_those_wanted_or_those_that_fit(limit: int | None, expected: int) -> None:
    assert parts_within(limit, 5, 100) == expected


@pytest.mark.parametrize("most", range(1, 12))
@pytest.mark.parametrize("count", range(1, 30))
def test_parts_hold_all_pieces_and_none_is_empty(count: int, most: int) -> None:
    parts, length = even_parts(count, most)
    assert 1 <= parts <= most
    assert (parts - 1) * length < count <= parts * length
