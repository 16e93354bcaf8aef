"""The tiles of passes over rows of a tensor: neighbouring work-items along a row."""

from __future__ import annotations

from convfind.device.target import DeviceKind, Target

#: Work-groups for each compute unit: enough to share work evenly, few enough for CPUs.
_GROUPS = {DeviceKind.CPU: 8}
_GROUPS_OF_GPU = 64
_LANES = 64
#: Columns of a work-item at most.
_COLUMNS = {DeviceKind.CPU: 64}
_COLUMNS_OF_GPU = 4


def row_tile(size: int, target: Target, *, is_known: bool) -> tuple[int, int]:
    """Return the work-items of a group along a row of so many columns, and the columns of each.

    Args:
        size: columns of a row.
        target: the device.
        is_known: whether a program may know the size; else it is one for rows of any size.
    """
    lanes = min(_LANES, 1 << (max(target.max_work_group, 1).bit_length() - 1))
    if is_known:
        lanes = min(lanes, 1 << (size - 1).bit_length())
    return lanes, min(_COLUMNS.get(target.kind, _COLUMNS_OF_GPU), -(-size // lanes))


def groups_wanted(target: Target) -> int:
    """Return the work-groups that share a pass evenly."""
    return target.compute_units * _GROUPS.get(target.kind, _GROUPS_OF_GPU)
