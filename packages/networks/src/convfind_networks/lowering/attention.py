"""Attention: heads that lie within other tensors, as strides and starts of a problem's operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from convfind_networks.graph import Node
from convfind_networks.layouts import packed_strides
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.ops import Attention
from convfind_networks.tensor_type import TensorType

KIND = "attention"


def attention(around: Surroundings, node: Node) -> Call:
    """Lower values that are weighted by how well their keys go with queries."""
    op = node.op
    assert isinstance(op, Attention)
    types = [around.type(name) for name in node.inputs]
    problem = attention_problem(around.problem_type(KIND), op, types)
    operands = dict(zip(("q", "k", "v", "mask"), node.inputs, strict=False))
    return Call(node, problem, {**operands, "y": node.output})


def attention_problem(make: Callable[..., Any], op: Attention, types: Sequence[TensorType]) -> Any:
    """Return the problem of an operation that reads values of these types.

    Raises:
        ProblemError: there is none.
    """
    views = {name: getattr(op, name) for name in ("q", "k", "v", "y")}
    strides = {
        name: view.strides
        for name, view in views.items()
        if view.strides != packed_strides(view.shape, channels_last=False)
    }
    mask = {"mask": types[3].shape, "mask_dtype": types[3].dtype.name} if types[3:] else {}
    return make(
        **{name: views[name].shape for name in ("q", "k", "v")},
        **mask,
        dtype=types[0].dtype.name,
        scale=op.scale,
        causal=op.causal,
        zeros=op.zeros,
        strides=strides,
        starts={name: views[name].start for name in ("q", "k", "v")},
    )
