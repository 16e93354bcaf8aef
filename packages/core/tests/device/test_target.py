"""`Target`: what solvers ask of a device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.testing import MOCK_TARGET


@pytest.mark.parametrize(
    ("arch", "features", "expected"),
    [
        ("sm_90", {"nv-ptx"}, 90),
        ("sm_120", {"nv-ptx", "int8"}, 120),
        ("sm_90", set(), 0),
        ("gfx90a:sramecc+", {"nv-ptx"}, 0),
        ("x86-64-avx512", set(), 0),
    ],
)
def test_compute_capability_is_of_devices_that_take_ptx(
    arch: str, features: set[str], expected: int
) -> None:
    target = replace(MOCK_TARGET, identity="", arch=arch, features=frozenset(features))
    assert target.compute_capability == expected
