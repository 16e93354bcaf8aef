"""A device has room for a kernel, or what the kernel needs of it is the refusal."""

from __future__ import annotations

from dataclasses import replace

from convfind.kit.device_room import has_room
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
