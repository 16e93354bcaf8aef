"""Splits into training data and data for scoring only."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from convfind_finddb_tools.heuristics.dataset import Dataset

Split = Literal["family", "problem"]


def held_out(dataset: Dataset, split: Split, share: float, seed: int) -> NDArray[np.bool_]:
    """Choose a share of the families, or of the single problems.

    The choice follows from a hash of each, so a problem is on the same side in all data.
    """
    numbers = dataset.family if split == "family" else _numbers(dataset)
    mixed = numbers ^ _number(str(seed))
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):  # the finalizer of MurmurHash3
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(factor)
    limit = int(share * 2.0**64)
    chosen: NDArray[np.bool_] = mixed < np.uint64(min(limit, 2**64 - 1))
    return chosen


def _number(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little"))


def _numbers(dataset: Dataset) -> NDArray[np.uint64]:
    return np.array([_number(str(text)) for text in dataset.texts], np.uint64)
