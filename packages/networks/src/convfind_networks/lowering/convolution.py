"""Convolutions, and linear layers as convolutions of 1x1, with their epilogues."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from convfind.problem import ConvProblem
from convfind.types import Layout
from convfind_networks.errors import GraphError
from convfind_networks.graph import Graph, Node
from convfind_networks.lowering.activation import kernel_activation
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.ops import Convolution, Epilogue, LayoutCopy, Linear


def convolution(around: Surroundings, node: Node) -> Call:
    """Lower a convolution: a constant lies as what it is convolved with."""
    op = node.op
    assert isinstance(op, Convolution)
    x, w = node.inputs[:2]
    rank = around.type(x).rank - 2
    x_last = around.is_last(w if around.is_constant(x) else x)
    w_last = around.is_last(x if around.is_constant(w) else w)
    if x_last != w_last:
        raise GraphError("computed weights that do not lie as x does")
    problem = op.geometry.problem(
        around.type(x).shape,
        around.type(w).shape,
        dtype=around.dtype(x),
        channels_last=x_last,
        y_layout=Layout.of(rank, channels_last=around.is_last(node.output)),
        x_strides=around.laid_out.own_strides(x),
        y_strides=around.laid_out.own_strides(node.output),
        **_options(op.epilogue),
    )
    return _call(node, problem, op.epilogue)


def copy_and_convolution(graph: Graph, node: Node) -> Node | None:
    """Return a convolution of what a copy reads, if this is one of a copy into its layout."""
    before = graph.producers.get(node.inputs[0]) if node.inputs else None
    if before is None or not isinstance(before.op, LayoutCopy):
        return None
    if not isinstance(node.op, Convolution) or graph.uses[before.output] != 1:
        return None
    return Node(node.op, (*before.inputs, *node.inputs[1:]), node.outputs, node.name)


def linear(around: Surroundings, node: Node) -> Call:
    """Lower a linear layer: what lies between its first and last dimension is an image."""
    op = node.op
    assert isinstance(op, Linear)
    x, w = node.inputs[:2]
    *sizes, channels = around.type(x).shape
    batch, positions = (sizes[0], math.prod(sizes[1:])) if sizes else (1, 1)
    problem = ConvProblem.forward(
        (batch, channels, positions, 1),
        (*around.type(w).shape, 1, 1),
        dtype=around.dtype(x),
        layout=Layout.NHWC,
        **_options(op.epilogue),
    )
    rows = frozenset(problem.plain_name(name) for name in ("x", "z", "y"))
    return replace(_call(node, problem, op.epilogue), rows=rows)


def _call(node: Node, problem: ConvProblem, epilogue: Epilogue) -> Call:
    """Return the call of the plain problem, which has names of its own where x and y change."""
    names = ["x", "w", *["bias"] * epilogue.bias, *["z"] * epilogue.residual, "y"]
    values = (*node.inputs, node.output)
    operands = {problem.plain_name(name): value for name, value in zip(names, values, strict=True)}
    return Call(node, problem.plain(), operands)


def _options(epilogue: Epilogue) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if epilogue.bias:
        options["bias"] = True
    if epilogue.residual:
        options["add"] = True
        options["add_last"] = epilogue.residual_last
    if epilogue.activation is not None:
        options["activation"] = kernel_activation(epilogue.activation)
    return options
