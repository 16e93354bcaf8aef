"""Parts are as many as are wanted and fit, and work is divided evenly."""

from __future__ import annotations

import pytest

from convfind.kit.parts import (
    bytes_of_parts,
    even_length,
    even_parts,
    part_bytes,
    parts_in_rounds,
    parts_of_result,
    parts_within,
    pieces,
)
from convfind.problem import ConvProblem
from convfind.types import DataType, Direction


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


@pytest.mark.parametrize("most", range(1, 12))
@pytest.mark.parametrize("count", range(1, 30))
def test_even_pieces_are_no_longer_than_most_and_no_more_than_needed(count: int, most: int) -> None:
    length = even_length(count, most)
    assert 1 <= length <= most
    pieces = -(-count // length)
    assert pieces == -(-count // most)
    assert pieces == 1 or -(-count // (length - 1 or 1)) > pieces or length == 1


@pytest.mark.parametrize(
    ("work_groups", "places", "most", "expected"),
    [
        (10, 100, 1000, [1, 10, 20, 30]),
        (10, 100, 25, [1, 10, 20]),
        (100, 100, 1000, [1, 2, 3]),
        (400, 100, 1000, [1]),
        (10, 100, 1, [1]),
    ],
)
def test_parts_fill_whole_rounds(
    work_groups: int, places: int, most: int, expected: list[int]
) -> None:
    assert parts_in_rounds(work_groups, places, most) == expected


@pytest.mark.parametrize("direction", list(Direction))
def test_a_part_is_a_result_in_float32(direction: Direction) -> None:
    half = DataType.FLOAT16
    problem = ConvProblem.create(direction, (2, 4, 9, 9), (8, 4, 3, 3), dtype=half)
    sizes = {"x": 2 * 4 * 81, "w": 8 * 4 * 9, "y": 2 * 8 * 49}
    assert part_bytes(problem) == 4 * sizes[direction.writes]
    assert bytes_of_parts(problem, 3) == 3 * part_bytes(problem)
    assert bytes_of_parts(problem, 1) == 0
    assert parts_of_result(problem, 5, None) == 5
    assert parts_of_result(problem, 5, 4 * part_bytes(problem) - 1) == 3
    assert parts_of_result(problem, 5, 0) == 1


def test_pieces_follow_each_other_to_the_end() -> None:
    assert list(pieces(7, 3)) == [(0, 3), (3, 3), (6, 1)]
    assert list(pieces(6, 3)) == [(0, 3), (3, 3)]
    assert list(pieces(2, 5)) == [(0, 2)]
    assert list(pieces(0, 5)) == []
