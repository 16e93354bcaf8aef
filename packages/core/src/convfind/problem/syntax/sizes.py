"""Sizes such as ``64x3x3`` as text."""

from __future__ import annotations

import re

from convfind.errors import ProblemError

_SIZE = re.compile(r"[0-9]{1,13}")


def format_sizes(sizes: tuple[int, ...]) -> str:
    """Join whole numbers with ``x``."""
    return "x".join(map(str, sizes))


def parse_sizes(field: str, text: str, separator: str = "x") -> tuple[int, ...]:
    """Split whole numbers at the separator."""
    return tuple(parse_size(field, part) for part in text.split(separator))


def parse_size(field: str, text: str) -> int:
    """Read an unsigned integer of at most 13 digits."""
    if not _SIZE.fullmatch(text):
        raise ProblemError(field, text, "a whole number that is not negative")
    return int(text)


def checked_text(field: str, value: object) -> str:
    """Return the argument if it is a text; refuse anything else."""
    if not isinstance(value, str):
        raise ProblemError(field, value, "a text")
    return value
