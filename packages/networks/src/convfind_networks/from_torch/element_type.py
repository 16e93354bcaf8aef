"""Element types of torch as those of NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from convfind_networks.graph import Value
from convfind_networks.tensor_type import is_float


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's type for one of torch's; object where it has none."""
    word = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(getattr(ml_dtypes, word, word))
    except TypeError:
        return np.dtype(object)


def promoted(*operands: Value | complex) -> np.dtype[Any]:
    """Return the type in which operands meet, as PyTorch has it.

    A kind beats a lower one: truth values, whole numbers, reals. Within a kind tensors beat tensors
    without dimensions, and these beat numbers.
    """
    types = [_operand_type(one) for one in operands]
    kind = max(kind for kind, _, _ in types)
    place = max(place for own, place, _ in types if own == kind)
    met = [dtype for own, at, dtype in types if (own, at) == (kind, place)]
    if len({*met}) == 1:
        return met[0]
    if any(is_float(one) for one in met):  # two of 16 bits have no common one of 16 bits
        widest = max(4, *(one.itemsize for one in met))
        return np.dtype(f"f{widest}")
    return np.result_type(*met)


def _operand_type(one: Value | complex) -> tuple[int, int, np.dtype[Any]]:
    """Return an operand's kind, how much its type counts within it, and the type."""
    if isinstance(one, Value):
        kind = 0 if one.dtype == np.bool_ else 2 if is_float(one.dtype) else 1
        return kind, 2 if one.type.rank else 1, one.dtype
    number = np.bool_ if isinstance(one, bool) else np.int64 if isinstance(one, int) else np.float32
    return {np.bool_: 0, np.int64: 1, np.float32: 2}[number], 0, np.dtype(number)
