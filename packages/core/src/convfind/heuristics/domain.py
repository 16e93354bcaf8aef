"""`Domain`: the problems for which a network was trained and may be used.

A network may be used for a problem whose fields all have usual values, or are described by
features, within the range of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt

import numpy as np
from numpy.typing import NDArray

from convfind.cached import cached_property
from convfind.heuristics.features import DESCRIBED, LEAST, SIZES
from convfind.problem import ConvProblem
from convfind.problem.fields import unusual
from convfind.types import DataType

_KIND = SIZES.index("spatial_rank")
_FILTER = SIZES.index("filter_depth")

#: A part of the problems of one direction: their kind, and the number of axes of the filter that
#: are longer than 1: none for pointwise filters, one for filters of one row.
Region = tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """The problems that a network was trained on.

    Attributes:
        low: smallest value of each field of `SIZES` before the spatial rank.
        high: largest value of each.
        kinds: the combinations of the other fields: rank, data type and layouts.
        weak: the regions in which other choices were better on problems not trained on.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    kinds: frozenset[tuple[int, ...]]
    weak: frozenset[Region] = frozenset()

    @classmethod
    def of(cls, rows: NDArray[np.int32]) -> Domain:
        """Return the smallest domain that contains these problems: (problems, fields)."""
        ranged = rows[:, :_KIND]
        return cls(
            tuple(ranged.min(axis=0).tolist()),
            tuple(ranged.max(axis=0).tolist()),
            frozenset(map(tuple, np.unique(rows[:, _KIND:], axis=0).tolist())),
        )

    @cached_property
    def _lows(self) -> tuple[tuple[int, int], ...]:
        """Index and smallest value of the fields that can be below it."""
        return tuple(
            (place, low)
            for place, (name, low) in enumerate(zip(SIZES, self.low, strict=False))
            if low > LEAST.get(name, 1)
        )

    @cached_property
    def _weak_kinds(self) -> frozenset[tuple[int, ...]]:
        return frozenset(region[:-1] for region in self.weak)

    def refusal(self, row: Sequence[int]) -> str | None:
        """Return what about a problem of these kinds is outside, None if nothing is."""
        # A region costs twice as much to name as a kind, and most kinds have no weak one.
        if self.weak and kind_of(row) in self._weak_kinds and region_of(row) in self.weak:
            long = region_of(row)[-1]
            return f"weak at held-out {kind_text(row)}, axes of the filter longer than 1: {long}"
        if any(map(gt, row, self.high)) or any([row[place] < low for place, low in self._lows]):
            name, value, low, high = next(
                fields
                for fields in zip(SIZES, row, self.low, self.high, strict=False)
                if not fields[2] <= fields[1] <= fields[3]
            )
            return f"{name} {value} is outside the range of training, {low} to {high}"
        return None


def undescribed(problem: ConvProblem) -> str | None:
    """Return the field of a problem that no feature describes, with its value; None without one."""
    for field, value in unusual(problem):
        if field.name not in DESCRIBED:
            return f"{field.name} is {value}, which no feature describes"
    return None


def kind_of(row: Sequence[int]) -> tuple[int, ...]:
    """Return rank, data type and layouts from a problem's `sizes`."""
    return tuple(row[_KIND:])


def region_of(row: Sequence[int]) -> Region:
    """Return a problem's region from its `sizes`."""
    depth, height, width = row[_FILTER : _FILTER + 3]
    return (*row[_KIND:], (depth > 1) + (height > 1) + (width > 1))


def kind_text(row: Sequence[int]) -> str:
    """Return rank, data type and layouts in words."""
    rank, dtype, *last = row[_KIND:]
    layouts = " ".join(
        f"{name} channels {'last' if flag else 'first'}"
        for name, flag in zip("xwy", last, strict=True)
    )
    return f"{rank}-D {tuple(DataType)[dtype]} with {layouts}"
