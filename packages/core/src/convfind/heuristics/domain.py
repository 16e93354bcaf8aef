"""`Domain`: the problems that a network was trained on, and may be asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt

import numpy as np
from numpy.typing import NDArray

from convfind.cached import cached_property
from convfind.heuristics.features import SIZES
from convfind.types import DataType

_KIND = SIZES.index("spatial_rank")


@dataclass(frozen=True)
class Domain:
    """The problems that a network was trained on.

    Attributes:
        low: smallest value of each field of `SIZES` before the spatial rank.
        high: largest one.
        kinds: the combinations of the other fields: rank, data type and layouts.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    kinds: frozenset[tuple[int, ...]]

    @classmethod
    def of(cls, rows: NDArray[np.int32]) -> Domain:
        """The least domain that holds these problems: (problems, fields)."""
        ranged = rows[:, :_KIND]
        return cls(
            tuple(ranged.min(axis=0).tolist()),
            tuple(ranged.max(axis=0).tolist()),
            frozenset(map(tuple, np.unique(rows[:, _KIND:], axis=0).tolist())),
        )

    @cached_property
    def _lows(self) -> tuple[tuple[int, int], ...]:
        """Place and smallest value of the fields that can be below it at all."""
        return tuple(
            (place, low)
            for place, (name, low) in enumerate(zip(SIZES, self.low, strict=False))
            if low > (0 if name.startswith("padding") else 1)
        )

    def refusal(self, row: Sequence[int]) -> str | None:
        """Say what about a problem of these kinds is outside, None where nothing is."""
        if any(map(gt, row, self.high)) or any([row[place] < low for place, low in self._lows]):
            name, value, low, high = next(
                fields
                for fields in zip(SIZES, row, self.low, self.high, strict=False)
                if not fields[2] <= fields[1] <= fields[3]
            )
            return f"{name} {value} is outside the range of training, {low} to {high}"
        return None


def kind_of(row: Sequence[int]) -> tuple[int, ...]:
    """Rank, data type and layouts from the `sizes` of a problem."""
    return tuple(row[_KIND:])


def kind_text(row: Sequence[int]) -> str:
    """The same in words."""
    rank, dtype, *last = row[_KIND:]
    layouts = " ".join(
        f"{name} channels {'last' if flag else 'first'}"
        for name, flag in zip("xwy", last, strict=True)
    )
    return f"{rank}-D {tuple(DataType)[dtype]} with {layouts}"
