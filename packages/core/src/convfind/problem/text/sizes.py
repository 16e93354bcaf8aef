"""Sizes such as ``64x3x3`` as text, and properties that MIOpen's texts cannot express."""

from __future__ import annotations

import re

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import AccuracyClass

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


def refuse_unspeakable(problem: ConvProblem, text_form: str) -> None:
    """Raise if a problem has a property that MIOpen's texts cannot express."""
    refused = (
        ("padding_end", problem.padding_end, problem.padding),
        ("x_strides", problem.x_strides, None),
        ("w_strides", problem.w_strides, None),
        ("y_strides", problem.y_strides, None),
        ("alpha", problem.alpha, 1.0),
        ("beta", problem.beta, 0.0),
        ("deterministic", problem.deterministic, False),
        ("allow_tf32", problem.allow_tf32, False),
        ("accuracy", problem.accuracy, AccuracyClass.NORMAL),
        ("bias", problem.bias, False),
        ("add", problem.add, False),
        ("activation", problem.activation, None),
    )
    for field, value, sayable in refused:
        if value != sayable:
            raise ProblemError(field, value, f"{sayable} in a {text_form}")
    if problem.spatial_rank == 1:
        raise ProblemError("x", problem.x_shape, f"2 or 3 spatial dimensions in a {text_form}")
