"""Reductions, places of extremes, orders and scans."""

from __future__ import annotations

import math

import numpy as np

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    ArgReduce,
    BinaryFunction,
    CumulativeProduct,
    CumulativeSum,
    ReduceFunction,
    TopK,
    UnaryFunction,
)


def _reduction(function: ReduceFunction) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        return _reduced(node, function, node.typed(node.value(), node.dtype()))

    return add


def _reduced(node: AtenNode, function: ReduceFunction, x: Value) -> Value:
    """Reduce along the axes that are given, all where none are."""
    axes = node.axes("dim", x.type.rank)
    return node.reduce(function, x, *axes, keepdims=bool(node.get("keepdim", False)))


def _truth(function: ReduceFunction) -> AtenOperator:
    """Return the function of aten.any or aten.all."""

    def add(node: AtenNode) -> Value:
        numbers = node.cast(node.cast(node.value(), np.bool_), np.int32)
        return node.cast(_reduced(node, function, numbers), np.bool_)

    return add


def norm(node: AtenNode) -> Value:
    """aten.linalg_vector_norm, norm: of order 1, 2 or infinity."""
    order = float(node.get("ord", node.get("p", 2)))
    x = node.typed(node.value(), node.dtype())
    if math.isinf(order):
        function = ReduceFunction.MAX if order > 0 else ReduceFunction.MIN
        return _reduced(node, function, node.magnitude(x))
    if order not in (1, 2):
        raise NotSupported(f"order {order}")
    return _reduced(node, ReduceFunction.L1 if order == 1 else ReduceFunction.L2, x)


def variance(node: AtenNode) -> Value:
    """aten.var."""
    x = node.value()
    axes = node.axes("dim", x.type.rank)
    count = math.prod(x.shape[axis] for axis in axes)
    correction = node.get("correction", 0 if node.get("unbiased", True) is False else 1)
    centred = node.minus(x, node.reduce(ReduceFunction.MEAN, x, *axes))
    total = _reduced(node, ReduceFunction.SUM, node.times(centred, centred))
    return node.over(total, float(max(count - correction, 0)))


def deviation(node: AtenNode) -> Value:
    """aten.std."""
    return node.unary(UnaryFunction.SQRT, variance(node))


def _with_mean(statistic: AtenOperator) -> AtenOperator:
    """Return the function of aten.var_mean or std_mean."""

    def add(node: AtenNode) -> tuple[Value, ...]:
        first = statistic(node)
        assert isinstance(first, Value)
        return first, _reduced(node, ReduceFunction.MEAN, node.value())

    return add


def _arg(*, largest: bool) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        x, kept = node.value(), bool(node.get("keepdim", False))
        if node.get("dim") is None:
            place = node.add(ArgReduce(largest, 0, False), node.reshape(x, x.type.elements))
            return node.reshape(place, *(1,) * (kept * x.type.rank))
        return node.add(ArgReduce(largest, node.axis("dim", x.type.rank), kept), x)

    return add


def _extreme(*, largest: bool) -> AtenOperator:
    """Return the function of aten.max or min: of all elements, along an axis, or of two tensors."""

    def add(node: AtenNode) -> Value | tuple[Value, ...]:
        x = node.value()
        if (other := node.optional("other")) is not None:
            return node.arithmetic(BinaryFunction.MAX if largest else BinaryFunction.MIN, x, other)
        function = ReduceFunction.MAX if largest else ReduceFunction.MIN
        if node.get("dim") is None:
            return node.reduce(function, x, *range(x.type.rank), keepdims=False)
        axis, kept = node.axis("dim", x.type.rank), bool(node.get("keepdim", False))
        places = node.add(ArgReduce(largest, axis, kept), x)
        return node.reduce(function, x, axis, keepdims=kept), places

    return add


def cumulative_sum(node: AtenNode) -> Value:
    """aten.cumsum."""
    x = node.typed(node.value(), node.dtype())
    return node.add(CumulativeSum(node.axis("dim", x.type.rank)), x)


def cumulative_product(node: AtenNode) -> Value:
    """aten.cumprod."""
    x = node.typed(node.value(), node.dtype())
    return node.add(CumulativeProduct(node.axis("dim", x.type.rank)), x)


def top_k(node: AtenNode) -> tuple[Value, ...]:
    """aten.topk."""
    x = node.value()
    op = TopK(
        int(node.get("k")), node.axis("dim", x.type.rank, -1), bool(node.get("largest", True))
    )
    return node.add_all(op, x)


def sort(node: AtenNode) -> tuple[Value, ...]:
    """aten.sort: the first of all; equal elements stay in order."""
    x = node.value()
    axis = node.axis("dim", x.type.rank, -1)
    return node.add_all(TopK(x.shape[axis], axis, bool(node.get("descending", False))), x)


def sorted_places(node: AtenNode) -> Value:
    """aten.argsort."""
    return sort(node)[1]


OPERATORS: AtenOperators = {
    "mean": _reduction(ReduceFunction.MEAN),
    "sum": _reduction(ReduceFunction.SUM),
    "prod": _reduction(ReduceFunction.PROD),
    "amax": _reduction(ReduceFunction.MAX),
    "amin": _reduction(ReduceFunction.MIN),
    "logsumexp": _reduction(ReduceFunction.LOG_SUM_EXP),
    "any": _truth(ReduceFunction.MAX),
    "all": _truth(ReduceFunction.MIN),
    "linalg_vector_norm": norm,
    "norm": norm,
    "var": variance,
    "std": deviation,
    "var_mean": _with_mean(variance),
    "std_mean": _with_mean(deviation),
    "argmax": _arg(largest=True),
    "argmin": _arg(largest=False),
    "max": _extreme(largest=True),
    "min": _extreme(largest=False),
    "cumsum": cumulative_sum,
    "cumprod": cumulative_product,
    "topk": top_k,
    "sort": sort,
    "argsort": sorted_places,
}
