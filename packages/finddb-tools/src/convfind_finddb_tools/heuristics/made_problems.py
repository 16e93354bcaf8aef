"""Unmeasured problems derived from measured ones, for teachers to label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convfind.heuristics.features import SIZES

#: Shares of the problems in which something is changed.
_OTHER_BATCH, _OTHER_SIZE, _OTHER_IMAGE, _OTHER_TYPE = 0.6, 0.35, 0.15, 0.3
_OTHER_CHANNELS = 0.3  # taken from another problem, and as often changed
_FACTORS = (0.5, 0.75, 1.25, 1.5, 2.0)
_SPREAD = 0.35  # standard deviation of the logarithm of what sizes are multiplied by

_BATCH, _GROUPS, _DTYPE = map(SIZES.index, ("batch", "groups", "dtype"))
_CHANNELS = [SIZES.index(name) for name in ("channels", "out_channels")]
_IMAGE = [SIZES.index(name) for name in ("height", "width")]
_AXES = [
    tuple(
        SIZES.index(f"{name}{axis}")
        for name in ("", "out_", "filter_", "stride_", "padding_", "dilation_")
    )
    for axis in ("depth", "height", "width")
]


def made_problems(
    rows: NDArray[np.int32], count: int, seed: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Change batch, channels, image and data type of problems, within their ranges.

    Returns:
        So many problems or somewhat fewer, (problems, fields), and which one each was made from.
    """
    generator = np.random.default_rng(seed)
    source = generator.integers(len(rows), size=2 * count)
    made = rows[source].astype(np.int64)
    donors = rows[generator.integers(len(rows), size=len(made))]

    def some(share: float) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = generator.random(len(made)) < share
        return chosen

    def multiply(chosen: NDArray[np.bool_], field: int, factors: NDArray[np.float64]) -> None:
        product = np.round(made[chosen, field] * factors[chosen])
        made[chosen, field] = np.maximum(product, 1).astype(np.int64)

    multiply(some(_OTHER_BATCH), _BATCH, np.exp2(generator.integers(-2, 3, len(made))))
    whole = made[:, _GROUPS] == 1
    for field in _CHANNELS:
        chosen = whole & some(_OTHER_CHANNELS)
        made[chosen, field] = donors[chosen, field]
        multiply(whole & some(_OTHER_CHANNELS), field, generator.choice(_FACTORS, len(made)))
    chosen, factors = some(_OTHER_SIZE), np.exp(generator.normal(0.0, _SPREAD, len(made)))
    for field in _IMAGE:
        multiply(chosen & (made[:, field] > 1), field, factors)
    chosen = some(_OTHER_IMAGE) & (made[:, _IMAGE[0]] > 1)
    for field in _IMAGE:
        made[chosen, field] = donors[chosen, field]
    chosen = some(_OTHER_TYPE)
    made[chosen, _DTYPE] = donors[chosen, _DTYPE]
    for size, out, taps, stride, padding, dilation in _AXES:
        reach = made[:, dilation] * (made[:, taps] - 1) + 1
        made[:, out] = (made[:, size] + 2 * made[:, padding] - reach) // made[:, stride] + 1
    fits = ((made >= rows.min(axis=0)) & (made <= rows.max(axis=0))).all(axis=1)
    kept = np.flatnonzero(fits)[:count]
    return made[kept].astype(np.int32), source[kept]
