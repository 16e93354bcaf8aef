"""The graph: what a network computes, as frozen values, with a type on every tensor."""

from __future__ import annotations

from convfind_networks.graph.builder import GraphBuilder
from convfind_networks.graph.editor import GraphEditor
from convfind_networks.graph.graph import Graph
from convfind_networks.graph.node import Node
from convfind_networks.graph.value import Value
from convfind_networks.graph.within import Within
from convfind_networks.tensor_type import Array, TensorType, is_float

__all__ = [
    "Array",
    "Graph",
    "GraphBuilder",
    "GraphEditor",
    "Node",
    "TensorType",
    "Value",
    "Within",
    "is_float",
]
