"""Epilogues: residual sums and activations become part of the operation before them."""

from __future__ import annotations

from dataclasses import replace

from convfind_networks.graph import Graph, GraphEditor, Node
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
from convfind_networks.ops.elementwise import TAKES_GATES


def fuse_epilogues(graph: Graph) -> Graph:
    """Fuse sums and activations into convolutions and products that nobody else reads.

    A sum may come before the activation or behind it, and is the only one.

    Norms and arithmetic that no convolution takes in take activations, too. So does a sum or a
    product that alone reads an activation which nothing before takes in: a gate.

    Biases are there already: `fold_scales` makes them.
    """
    edit = GraphEditor(graph)
    for node in edit:
        match node.op:
            case Activate():
                _fuse_activation(edit, node, node.op)
            case Binary(function=BinaryFunction.ADD, activation=None):
                _fuse_residual(edit, node)
    for node in edit:  # where the operations before were asked first
        if isinstance(node.op, Binary):
            _fuse_gate(edit, node, node.op)
    return edit.graph()


def _fusible(edit: GraphEditor, name: str) -> Node | None:
    """Return the operation that computes a value for one reader, and has no sum yet."""
    before = edit.producer(name)
    if before is None or not edit.is_read_once(name):
        return None
    match before.op:
        case Convolution(epilogue=epilogue) | Linear(epilogue=epilogue):
            return None if epilogue.residual else before
    return None


def _fuse_activation(edit: GraphEditor, node: Node, op: Activate) -> None:
    before = edit.producer(node.inputs[0])
    if before is None or not edit.is_read_once(node.inputs[0]):
        return
    fused = _activated(before.op, op.activation)
    if fused is not None and edit.value(node.output).type.is_float:
        edit.replace([before, node], Node(fused, before.inputs, node.outputs, before.name))


def _activated(op: Op, activation: Activation) -> Op | None:
    """Return an operation that ends with an activation, None where it cannot or does already."""
    match op:
        case Convolution(epilogue=epilogue) | Linear(epilogue=epilogue):
            if epilogue.activation is None:
                return replace(op, epilogue=replace(epilogue, activation=activation))
        case BatchNorm(activation=None) | GroupNorm(activation=None) | Binary(activation=None):
            return replace(op, activation=activation)
    return None


def _fuse_residual(edit: GraphEditor, node: Node) -> None:
    """Fuse a sum into the later of its two operands: the other one is there by then."""
    a, b = node.inputs
    kind = edit.value(node.output).type
    if not edit.value(a).type == edit.value(b).type == kind:
        return
    candidates = [(_fusible(edit, one), other) for one, other in ((a, b), (b, a))]
    fusible = [(before, z) for before, z in candidates if before is not None]
    if fusible:
        before, z = max(fusible, key=lambda pair: edit.position(pair[0]))
        assert isinstance(before.op, (Convolution, Linear))
        epilogue = before.op.epilogue
        comes_last = epilogue.activation is not None
        epilogue = replace(epilogue, residual=True, residual_last=comes_last)
        fused = replace(before.op, epilogue=epilogue)
        inputs = (*before.inputs, z)
        edit.replace([before, node], Node(fused, inputs, node.outputs, before.name))


def _fuse_gate(edit: GraphEditor, node: Node, op: Binary) -> None:
    """Let arithmetic apply the activation of an operand, once for each of its elements."""
    kind = edit.value(node.output).type
    if op.activation is not None or op.function not in TAKES_GATES or not kind.is_float:
        return
    for at, name in enumerate(node.inputs):
        gate = edit.producer(name)
        if gate is None or not isinstance(gate.op, Activate):
            continue
        if not edit.is_read_once(name) or edit.value(name).type != kind:
            continue
        inputs = list(node.inputs)
        inputs[at] = gate.inputs[0]
        fused = replace(op, activation=gate.op.activation, activates="ab"[at])
        edit.replace([gate, node], Node(fused, tuple(inputs), node.outputs, node.name))
        return
