"""Whole networks: import, passes, reference, memory and layouts, and plans that run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

#: Where names come from. The entry point is imported wherever a device is opened, and needs none of
#: them.
_ROOMS = {
    "errors": (
        "BindingError",
        "GraphError",
        "ModelFormatError",
        "NetworkError",
        "PlanError",
        "Unsupported",
        "UnsupportedError",
    ),
    "evaluation": ("evaluate",),
    "graph": ("Graph", "GraphBuilder", "GraphEditor", "Node", "TensorType", "Value"),
    "layouts": ("LayoutPlan", "assign_layouts", "channels_last_where_possible"),
    "memory": ("MemoryPlan", "plan_memory"),
    "model": ("Model", "ModelInput"),
    "network": ("Network", "problems_of"),
    "passes": ("optimize",),
    "plan": ("Plan",),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
