"""Layouts: which values lie channels-first and which channels-last."""

from __future__ import annotations

from convfind_networks.layouts.assignment import (
    Copy,
    LayoutPlan,
    assign_layouts,
    is_same_memory,
    packed_strides,
)
from convfind_networks.layouts.laid_out import LaidOut, lay_out
from convfind_networks.layouts.nesting import nested, places_in_whole
from convfind_networks.layouts.rule import channels_last_where_possible

__all__ = [
    "Copy",
    "LaidOut",
    "LayoutPlan",
    "assign_layouts",
    "channels_last_where_possible",
    "is_same_memory",
    "lay_out",
    "nested",
    "packed_strides",
    "places_in_whole",
]
