"""Parts of a sum, or of other work, that are computed side by side: how many, and how long."""

from __future__ import annotations

from collections.abc import Iterator

from convfind.kit.sizes import ceil_div
from convfind.problem import ConvProblem


def parts_within(limit: int | None, wanted: int, nbytes: int) -> int:
    """Return how many parts of so many bytes to compute: those wanted, or what fits the limit.

    At least 1. A limit of None has room for all.
    """
    return wanted if limit is None else max(1, min(wanted, limit // nbytes))


def even_parts(count: int, most: int) -> tuple[int, int]:
    """Divide so many pieces of work evenly: return the parts, at most so many, and their length."""
    length = ceil_div(count, most)
    return ceil_div(count, length), length


def pieces(count: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield where each piece of so many elements begins, and its length."""
    for first in range(0, count, length):
        yield first, min(length, count - first)


def parts_in_rounds(work_groups: int, places: int, most: int) -> list[int]:
    """Return the numbers of parts, up to most, that fill all places one to three times, and 1."""
    return [1, *(n for rounds in (1, 2, 3) if 1 < (n := rounds * places // work_groups) <= most)]


def part_bytes(problem: ConvProblem) -> int:
    """Return the bytes of a part of a result: as many float32 numbers as it has elements."""
    return 4 * problem.elements(problem.direction.writes)


def parts_of_result(problem: ConvProblem, wanted: int, limit: int | None) -> int:
    """Return how many parts of a result to compute: those wanted, or what fits the limit."""
    return parts_within(limit, wanted, part_bytes(problem))


def bytes_of_parts(problem: ConvProblem, parts: int) -> int:
    """Return the bytes of the parts of a result; none of one part, which is the result."""
    return parts * part_bytes(problem) if parts > 1 else 0


def even_length(count: int, most: int) -> int:
    """Return the length of pieces of so many elements: no more than most, and as even as can be."""
    return ceil_div(count, ceil_div(count, most))
