"""Whole networks: import, passes, reference, memory and layouts, and plans that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind_networks.errors import (
    BindingError,
    GraphError,
    ModelFormatError,
    NetworkError,
    PlanError,
    Unsupported,
    UnsupportedError,
)
from convfind_networks.evaluation import evaluate
from convfind_networks.graph import Graph, GraphBuilder, GraphEditor, Node, TensorType, Value
from convfind_networks.layouts import LayoutPlan, assign_layouts, channels_last_where_possible
from convfind_networks.memory import MemoryPlan, plan_memory
from convfind_networks.model import Model, ModelInput
from convfind_networks.network import Network, problems_of
from convfind_networks.passes import optimize

if TYPE_CHECKING:
    from convfind_networks.plan import Plan

__all__ = [
    "BindingError",
    "Graph",
    "GraphBuilder",
    "GraphEditor",
    "GraphError",
    "LayoutPlan",
    "MemoryPlan",
    "Model",
    "ModelFormatError",
    "ModelInput",
    "Network",
    "NetworkError",
    "Node",
    "Plan",
    "PlanError",
    "TensorType",
    "Unsupported",
    "UnsupportedError",
    "Value",
    "assign_layouts",
    "channels_last_where_possible",
    "evaluate",
    "optimize",
    "plan_memory",
    "problems_of",
]


def __getattr__(name: str) -> object:
    if name == "Plan":  # the commands' group is imported at every start, and plans are not needed
        from convfind_networks.plan import Plan

        return Plan
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
