"""A 1x1 convolution and the depthwise one behind it as one call."""

from __future__ import annotations

from convfind.problem import Activation as KernelActivation
from convfind_networks.graph import Graph, Node
from convfind_networks.lowering.activation import kernel_activation
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.lowering.operator import operator
from convfind_networks.ops import Activation, Convolution, Geometry, PointwiseDepthwise

_NAMES = ("x", "w", "bias", "depthwise_w", "depthwise_bias")


def pointwise_depthwise(around: Surroundings, node: Node) -> Call:
    """Lower a 1x1 convolution and a depthwise one of its result."""
    op = node.op
    assert isinstance(op, PointwiseDepthwise)
    x, w, _, taps, _ = node.inputs
    step = op.depthwise.geometry
    return operator(
        around,
        node,
        "pointwise-depthwise",
        {**dict(zip(_NAMES, node.inputs, strict=True)), "y": node.output},
        x=around.type(x).shape,
        filters=around.type(w).shape[0],
        size=around.type(taps).shape[2:],
        stride=step.stride,
        padding=step.padding,
        padding_end=step.padding_end,
        inner=_activation(op.pointwise.epilogue.activation),
        outer=_activation(op.depthwise.epilogue.activation),
    )


def pointwise_and_depthwise(graph: Graph, node: Node) -> Node | None:
    """Return both convolutions as a node, if this one is depthwise and reads a 1x1 convolution."""
    before = graph.producers.get(node.inputs[0]) if node.inputs else None
    if before is None or graph.uses[before.output] != 1:
        return None
    match before.op, node.op:
        case Convolution() as first, Convolution() as second:
            names = (*before.inputs[1:], *node.inputs[1:])
            constant = all(graph.values[name].is_constant for name in names)
            plain = _is_pointwise(graph, before, first) and _is_depthwise(graph, node, second)
            if constant and plain:
                op = PointwiseDepthwise(first, second)
                return Node(op, (*before.inputs, *node.inputs[1:]), node.outputs, node.name)
    return None


def _is_pointwise(graph: Graph, node: Node, op: Convolution) -> bool:
    w = graph.values[node.inputs[1]].type.shape
    return _has_bias_only(op) and op.geometry == Geometry.plain(2) and w[2:] == (1, 1)


def _is_depthwise(graph: Graph, node: Node, op: Convolution) -> bool:
    channels, each, *_ = graph.values[node.inputs[1]].type.shape
    step = op.geometry
    return (
        _has_bias_only(op)
        and len(step.stride) == 2
        and step.dilation == (1, 1)
        and not step.transposed
        and each == 1
        and step.groups == channels == graph.values[node.inputs[0]].type.shape[1]
    )


def _has_bias_only(op: Convolution) -> bool:
    return op.epilogue.bias and not op.epilogue.residual


def _activation(activation: Activation | None) -> KernelActivation | None:
    return None if activation is None else kernel_activation(activation)
