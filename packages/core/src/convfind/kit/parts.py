"""Parts of a sum, or of other work, that are computed side by side: how many, and how long."""

from __future__ import annotations

from convfind.kit.sizes import ceil_div


def parts_within(limit: int | None, wanted: int, nbytes: int) -> int:
    """Return how many parts of so many bytes to compute: those wanted, or what fits the limit.

    At least 1. A limit of None has room for all.
    """
    return wanted if limit is None else max(1, min(wanted, limit // nbytes))


def even_parts(count: int, most: int) -> tuple[int, int]:
    """Divide so many pieces of work evenly: return the parts, at most so many, and their length."""
    length = ceil_div(count, most)
    return ceil_div(count, length), length


def even_length(count: int, most: int) -> int:
    """Return the length of pieces of so many elements: no more than most, and as even as can be."""
    return ceil_div(count, ceil_div(count, most))
