"""`Target`: what solvers ask of a device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.testing import MOCK_TARGET


def test_cpus_of_one_name_and_other_models_are_different_devices() -> None:
    zen_3, zen_4, unknown = (
        replace(MOCK_TARGET, identity="", name="AMD EPYC", cpu_model=model)
        for model in ("family 25 model 1", "family 25 model 17", "")
    )
    assert zen_3.identity == "mock|mock|AMD EPYC (family 25 model 1)|mock|4"
    assert zen_3.identity != zen_4.identity
    assert zen_3.identities == (zen_3.identity, unknown.identity)
    assert unknown.identities == (unknown.identity,)


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
