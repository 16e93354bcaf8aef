"""A device's work-items and local memory: whether a solver has room, and how copies get there."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected

#: The first of NVIDIA's architectures that copies to local memory past the registers.
_OLDEST_COPIES = 80


def has_room(target: Target, *, items: int = 1, local_bytes: int = 0) -> Applicability:
    """Judge whether a device runs work-groups of so many items with so much local memory."""
    if target.max_work_group < items:
        return Rejected(Reason.WORK_GROUP, f"needs {items} work-items")
    if target.local_memory < local_bytes:
        return Rejected(Reason.LOCAL_MEMORY, f"needs {local_bytes} bytes")
    return APPLICABLE


def copies_past_registers(target: Target) -> bool:
    """Return whether a device copies to local memory past the registers."""
    return target.compute_capability >= _OLDEST_COPIES
