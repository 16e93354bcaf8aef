"""A device has room for a kernel, or what the kernel needs of it is the refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convfind.device.target import DeviceKind
from convfind.kit.device_room import copies_past_registers, has_room
from convfind.solver import APPLICABLE, Reason, Rejected
from convfind.testing import MOCK_TARGET

SMALL = replace(MOCK_TARGET, identity="", max_work_group=64, local_memory=1024)


def test_what_fits_has_room() -> None:
    assert has_room(SMALL, items=64, local_bytes=1024) is APPLICABLE
    assert has_room(SMALL) is APPLICABLE


def test_a_refusal_says_what_is_needed() -> None:
    needs = Rejected(Reason.WORK_GROUP, "needs 65 work-items")
    assert has_room(SMALL, items=65, local_bytes=4096) == needs
    assert has_room(SMALL, local_bytes=1025) == Rejected(Reason.LOCAL_MEMORY, "needs 1025 bytes")


@pytest.mark.parametrize(
    ("arch", "copies"), [("sm_75", False), ("sm_80", True), ("sm_100", True), ("gfx942", False)]
)
def test_copies_go_past_registers_on_nvidias_gpus_since_sm_80(arch: str, copies: bool) -> None:
    ptx = frozenset({"nv-ptx"} if arch.startswith("sm") else ())
    target = replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU, arch=arch, features=ptx)
    assert copies_past_registers(target) is copies
