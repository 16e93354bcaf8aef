"""Ramps, and the hinges that they are sums of."""

from __future__ import annotations

import numpy as np

from convfind.heuristics.features import BENT, FEATURES
from convfind.heuristics.ramps import Ramps


def test_ramps_rise_between_their_ends_only() -> None:
    columns = np.random.default_rng(0).normal(3.0, 2.0, (FEATURES, 500)).astype(np.float32)
    ramps = Ramps.of(columns)
    assert {*ramps.feature.tolist()} == {*BENT}
    low, high = ramps.low[:, None], ramps.high[:, None]
    wanted = np.clip(columns[ramps.feature], low, high) - low
    np.testing.assert_allclose(ramps.of_columns(columns), wanted, atol=1e-4)
    assert len(ramps.hinges()[0]) == len(ramps) + len(BENT)  # ramps of a feature share their ends


def test_a_constant_feature_has_no_ramps() -> None:
    ramps = Ramps.of(np.ones((FEATURES, 50), np.float32))
    assert (len(ramps), ramps.of_columns(np.ones((FEATURES, 7), np.float32)).shape) == (0, (0, 7))
