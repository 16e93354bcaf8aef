"""Memory: which values share memory, how long each block is needed, and where it lies."""

from __future__ import annotations

from convfind_networks.memory.blocks import Block, View, blocks_of
from convfind_networks.memory.plan import MemoryPlan, Placement, plan_memory

__all__ = ["Block", "MemoryPlan", "Placement", "View", "blocks_of", "plan_memory"]
