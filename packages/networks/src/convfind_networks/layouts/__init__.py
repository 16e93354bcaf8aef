"""Layouts: which values lie channels-first and which channels-last."""

from __future__ import annotations

from convfind_networks.layouts.assignment import Copy, LayoutPlan, assign_layouts
from convfind_networks.layouts.rule import channels_last_where_possible

__all__ = ["Copy", "LayoutPlan", "assign_layouts", "channels_last_where_possible"]
