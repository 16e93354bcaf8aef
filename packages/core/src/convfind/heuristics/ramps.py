"""Ramps: piecewise linear functions of a feature, so that networks treat ranges differently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from convfind.heuristics.features import BENT

_PIECES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Functions of one feature each that rise linearly between two values and are flat elsewhere.

    The piecewise linear encoding of Gorishniy, Rubachev and Babenko, "On embeddings for numerical
    features in tabular deep learning" (2022). Each array has one element per ramp.

    Attributes:
        feature: index of the feature.
        low: value at which the ramp begins.
        high: value at which it ends.
    """

    feature: NDArray[np.int64]
    low: NDArray[np.float32]
    high: NDArray[np.float32]

    @classmethod
    def none(cls) -> Self:
        """Return no ramps."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.float32))

    @classmethod
    def of(cls, columns: NDArray[np.float32]) -> Self:
        """Return ramps between the quantiles of training features: (features, problems)."""
        shares = np.linspace(0.0, 1.0, _PIECES + 1)
        quantiles = np.quantile(columns[list(BENT)], shares, axis=1).astype(np.float32)
        edges = [np.unique(of_one) for of_one in quantiles.T]
        return cls(
            np.repeat(np.array(BENT, np.int64), [len(edge) - 1 for edge in edges]),
            np.concatenate([edge[:-1] for edge in edges]),
            np.concatenate([edge[1:] for edge in edges]),
        )

    def __len__(self) -> int:
        return len(self.feature)

    def hinges(self) -> tuple[Hinges, NDArray[np.float32]]:
        """Hinges of which ramps are sums, and the coefficients, (ramps, hinges).

        A ramp is the hinge at its beginning minus the hinge at its end, minus a constant.
        Adjacent ramps share a hinge, so there are fewer hinges than ramps need.
        """
        features = self.feature.tolist()
        begins = list(zip(features, self.low.tolist(), strict=True))
        ends = list(zip(features, self.high.tolist(), strict=True))
        different = sorted({*begins, *ends})
        place = {end: number for number, end in enumerate(different)}
        sums = np.zeros((len(self), len(different)), np.float32)
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            sums[number, place[begin]], sums[number, place[end]] = 1.0, -1.0
        feature_of = np.array([feature for feature, _ in different], np.int64)
        knots = np.array([knot for _, knot in different], np.float32)
        return Hinges(feature_of, knots), sums

    def of_columns(self, columns: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the ramps of many problems: (features, problems) to (ramps, problems)."""
        hinges, sums = self.hinges()
        bent = np.empty((len(hinges), columns.shape[1]), np.float32)
        hinges.apply(columns, bent)
        found: NDArray[np.float32] = sums @ (bent - hinges.knot[:, None])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Hinges:
    """Functions of one feature each: the maximum of the feature and a knot."""

    feature: NDArray[np.int64]
    knot: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.feature)

    def apply(self, values: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Compute the hinges of one problem, or of many, in place: (features[, problems])."""
        knot = self.knot if values.ndim == 1 else self.knot[:, None]
        # An index is never out of range; this mode writes without a buffer.
        values.take(self.feature, 0, out=out, mode="clip")
        np.maximum(out, knot, out=out)
