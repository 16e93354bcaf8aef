"""Activations that kernels do not have as a part of another operation become nodes again."""

from __future__ import annotations

from dataclasses import replace

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.lowering.activation import is_kernels
from convfind_networks.ops import (
    Activate,
    Activation,
    BatchNorm,
    Binary,
    Convolution,
    Linear,
    Op,
)


def split_activations(graph: Graph) -> Graph:
    """Return the graph with activations of their own where no kernel ends with them."""
    edit = GraphEditor(graph)
    for node in edit:
        activation, op = _without_activation(node.op)
        if op is None or activation is None or is_kernels(activation):
            continue
        before = edit.result(edit.value(node.output).type, like=node.output)
        edit.replace(
            [node],
            Node(op, node.inputs, (before,), node.name),
            Node(Activate(activation), (before,), node.outputs, node.name),
        )
    return edit.graph()


def _without_activation(op: Op) -> tuple[Activation | None, Op | None]:
    """Return the activation that an operation ends with, and the operation without it."""
    match op:
        case Convolution(epilogue=epilogue) | Linear(epilogue=epilogue):
            return epilogue.activation, replace(op, epilogue=replace(epilogue, activation=None))
        case BatchNorm(activation=activation) | Binary(activation=activation):
            return activation, replace(op, activation=None)
    return None, None
