"""Element types of torch as those of NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's type for one of torch's; object where it has none."""
    word = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(getattr(ml_dtypes, word, word))
    except TypeError:
        return np.dtype(object)
