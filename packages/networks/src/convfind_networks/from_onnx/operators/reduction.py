"""Reductions, ArgMax, CumSum, CumProd, TopK."""

from __future__ import annotations

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import axes_of, axis_of
from convfind_networks.ops import (
    ArgReduce,
    CumulativeProduct,
    CumulativeSum,
    Identity,
    Reduce,
    ReduceFunction,
    TopK,
)

_REDUCTIONS = {
    "ReduceSum": ReduceFunction.SUM,
    "ReduceMean": ReduceFunction.MEAN,
    "ReduceMax": ReduceFunction.MAX,
    "ReduceMin": ReduceFunction.MIN,
    "ReduceProd": ReduceFunction.PROD,
    "ReduceL1": ReduceFunction.L1,
    "ReduceL2": ReduceFunction.L2,
    "ReduceLogSum": ReduceFunction.LOG_SUM,
    "ReduceLogSumExp": ReduceFunction.LOG_SUM_EXP,
    "ReduceSumSquare": ReduceFunction.SUM_SQUARE,
}


def reduce(node: OnnxNode) -> Value:
    """Reduce axes, all unless some are given; these are an attribute or an input."""
    x = node.input(0)
    axes = node.integers_or_input("axes", 1)
    if not axes:
        if node.integer("noop_with_empty_axes", 0):
            return node.add(Identity(), x)
        axes = tuple(range(x.type.rank))
    function = _REDUCTIONS[node.proto.op_type]
    op = Reduce(function, axes_of(axes, x.type.rank), bool(node.integer("keepdims", 1)))
    return node.add(op, x)


def arg_reduce(node: OnnxNode) -> Value:
    """ArgMax and ArgMin."""
    x = node.input(0)
    op = ArgReduce(
        node.proto.op_type == "ArgMax",
        axis_of(node.integer("axis", 0), x.type.rank),
        bool(node.integer("keepdims", 1)),
        bool(node.integer("select_last_index", 0)),
    )
    return node.add(op, x)


def cumulative(node: OnnxNode) -> Value:
    """CumSum and CumProd."""
    x = node.input(0)
    axis = axis_of(int(node.array(1, "axis").item()), x.type.rank)
    kind = CumulativeSum if node.proto.op_type == "CumSum" else CumulativeProduct
    op = kind(axis, bool(node.integer("exclusive", 0)), bool(node.integer("reverse", 0)))
    return node.add(op, x)


def top_k(node: OnnxNode) -> tuple[Value, ...]:
    """TopK; the number is an attribute before opset 10."""
    x = node.input(0)
    count = node.integer("k", 0) if node.opset < 10 else int(node.array(1, "k").item())
    axis = axis_of(node.integer("axis", -1), x.type.rank)
    return node.add_all(TopK(count, axis, bool(node.integer("largest", 1))), x)


OPERATORS: OnnxOperators = {
    **dict.fromkeys(_REDUCTIONS, reduce),
    "ArgMax": arg_reduce,
    "ArgMin": arg_reduce,
    "CumSum": cumulative,
    "CumProd": cumulative,
    "TopK": top_k,
}
