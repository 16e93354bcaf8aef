"""Checks of one value: it becomes its one spelling, or a `ProblemError` naming field and range."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from convfind.arguments import python_scalar
from convfind.errors import ProblemError
from convfind.types import DataType

_Enum = TypeVar("_Enum", bound=StrEnum)

#: Sizes must fit the 64-bit signed arithmetic of kernels with room for padding.
LARGEST_SIZE = 2**40
#: More than any tensor has axes.
_MOST_ENTRIES = 8
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def enum_value(field: str, kind: type[_Enum], value: Any) -> _Enum:
    """Return the enum member with this name."""
    if isinstance(value, kind):
        return value
    try:
        return kind(value)
    except (ValueError, TypeError):
        raise ProblemError(field, value, ", ".join(member.value for member in kind)) from None


def integer(field: str, value: object, least: int) -> int:
    """Return an integer of at least ``least``; booleans and fractions are refused."""
    if isinstance(value, bool):
        raise ProblemError(field, value, "a whole number")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ProblemError(field, value, "a whole number") from None
    if not least <= number <= LARGEST_SIZE:
        raise ProblemError(field, number, f"{least} to {LARGEST_SIZE}")
    return number


def _entries(value: Any) -> tuple[Any, ...] | None:
    """The first entries of a sequence, at least as many as a tensor has axes; None for others."""
    if isinstance(value, (tuple, list)):
        return tuple(value[:_MOST_ENTRIES])
    unordered_or_text = (str, bytes, bytearray, Set, Mapping)
    if not isinstance(value, Iterable) or isinstance(value, unordered_or_text):
        return None
    if getattr(value, "ndim", 1) == 0:
        return None  # an array of one number
    return tuple(islice(value, _MOST_ENTRIES))


def shape_of(field: str, value: Any, *, least_batch: int = 1) -> tuple[int, ...]:
    """Return a tensor shape of three to five sizes, all positive except perhaps the first."""
    if getattr(value, "ndim", 1) != 1:
        raise ProblemError(field, type(value).__name__, "the shape of the tensor, not the tensor")
    sizes = _entries(value)
    if sizes is None:
        raise ProblemError(field, value, "a sequence of whole numbers")
    if not 3 <= len(sizes) <= 5:
        raise ProblemError(
            field, sizes, "3 to 5 dimensions: batch (or out channels), channels, 1 to 3 spatial"
        )
    batch, *others = sizes
    return (
        integer(field, batch, least=least_batch),
        *(integer(field, size, least=1) for size in others),
    )


def per_axis(field: str, value: Any, rank: int, *, least: int) -> tuple[int, ...]:
    """Return one number for each axis from a number or a sequence."""
    numbers = _entries(value)
    if numbers is None:
        return (integer(field, value, least),) * rank
    if len(numbers) != rank:
        raise ProblemError(field, numbers, f"one number, or {rank} numbers")
    return tuple(integer(field, number, least) for number in numbers)


def padding_pair(
    value: Any,
    x_spatial: Sequence[int],
    filter_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return padding before and after each axis from a number, numbers, pairs, "same" or "valid".

    "same" is TensorFlow's rule: the result has ceil(size / stride) positions and an odd pad goes to
    the end.
    """
    rank = len(x_spatial)
    if isinstance(value, str):
        if value == "valid":
            return (0,) * rank, (0,) * rank
        if value != "same":
            raise ProblemError("padding", value, "numbers, (begin, end) pairs, 'same' or 'valid'")
        total = [
            max((x - 1) // s * s + d * (f - 1) + 1 - x, 0)
            for x, f, s, d in zip(x_spatial, filter_size, stride, dilation, strict=True)
        ]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    value = _entries(value) or value
    if isinstance(value, tuple):
        pairs = [pair for entry in value if (pair := _entries(entry)) is not None]
        if pairs and len(pairs) == len(value):
            if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
                raise ProblemError("padding", value, f"{rank} pairs of begin and end")
            begin, end = zip(*pairs, strict=True)
            return (
                per_axis("padding", begin, rank, least=0),
                per_axis("padding", end, rank, least=0),
            )
    both = per_axis("padding", value, rank, least=0)
    return both, both


def scale(field: str, value: object, dtype: DataType, y_dtype: DataType) -> float:
    """Return a scaling factor as the float that kernels get; -0.0 becomes 0.0."""
    allowed = "a finite number"
    value = python_scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ProblemError(field, value, allowed)
    if dtype is not DataType.FLOAT64:
        allowed = "a finite float32 number"
    try:
        number = float(value) + 0.0
    except OverflowError:
        raise ProblemError(field, value, allowed) from None
    if not math.isfinite(number) or (
        dtype is not DataType.FLOAT64 and abs(number) > LARGEST_FLOAT32
    ):
        raise ProblemError(field, value, allowed)
    if y_dtype is DataType.INT32 and not number.is_integer():
        raise ProblemError(field, value, "a whole number where the result is int32")
    return number


def flag(field: str, value: object) -> bool:
    """Return a truth value, NumPy's included; nothing else passes for one."""
    if value is True or value is False:
        return value
    value = python_scalar(value)
    if not isinstance(value, bool):
        raise ProblemError(field, value, "True or False")
    return value
