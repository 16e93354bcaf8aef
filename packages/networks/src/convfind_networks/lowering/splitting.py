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
    BinaryFunction,
    Convolution,
    GroupNorm,
    Linear,
    Op,
)


def split_activations(graph: Graph) -> Graph:
    """Return the graph with activations of their own where no kernel has them.

    So is a sum that comes behind such an activation, or a product whose operand it is.
    """
    edit = GraphEditor(graph)
    for node in edit:
        activation, op = _without_activation(node.op)
        if op is None or activation is None or is_kernels(activation):
            continue
        kind, name = edit.value(node.output).type, node.name
        if isinstance(node.op, Binary) and node.op.activates != "y":
            _activate_before(edit, node, node.op.activates, Activate(activation), op)
            continue
        before = edit.result(kind, like=node.output)
        if not _adds_last(node.op):
            first = Node(op, node.inputs, (before,), name)
            edit.replace([node], first, Node(Activate(activation), (before,), node.outputs, name))
            continue
        *inputs, z = node.inputs
        activated = edit.result(kind, like=node.output)
        edit.replace(
            [node],
            Node(op, tuple(inputs), (before,), name),
            Node(Activate(activation), (before,), (activated,), name),
            Node(Binary(BinaryFunction.ADD), (activated, z), node.outputs, name),
        )
    return edit.graph()


def _activate_before(edit: GraphEditor, node: Node, operand: str, first: Op, then: Op) -> None:
    at = "ab".index(operand)
    gate, inputs = node.inputs[at], list(node.inputs)
    inputs[at] = edit.result(edit.value(gate).type, like=gate)
    activated = Node(first, (gate,), (inputs[at],), node.name)
    edit.replace([node], activated, Node(then, tuple(inputs), node.outputs, node.name))


def _adds_last(op: Op) -> bool:
    return isinstance(op, (Convolution, Linear)) and op.epilogue.residual_last


def _without_activation(op: Op) -> tuple[Activation | None, Op | None]:
    """Return the activation that an operation ends with, and the operation without it."""
    match op:
        case Convolution(epilogue=epilogue) | Linear(epilogue=epilogue):
            rest = replace(epilogue, activation=None)
            if epilogue.residual_last:
                rest = replace(rest, residual=False, residual_last=False)
            return epilogue.activation, replace(op, epilogue=rest)
        case Binary(activation=activation):
            return activation, replace(op, activation=None, activates="y")
        case BatchNorm(activation=activation) | GroupNorm(activation=activation):
            return activation, replace(op, activation=None)
    return None, None
