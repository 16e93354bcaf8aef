"""The model side of whole networks: import, passes, reference, memory and layouts."""

from __future__ import annotations

from convfind_networks.errors import (
    BindingError,
    GraphError,
    ModelFormatError,
    NetworkError,
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
