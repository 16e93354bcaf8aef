"""Narrowing: a network's products in a 16-bit type, as PyTorch's autocast computes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from convfind_networks.errors import PlanError
from convfind_networks.graph import Graph, GraphBuilder, Node, Value
from convfind_networks.ops import (
    BatchNorm,
    Cast,
    Convolution,
    CumulativeSum,
    GroupNorm,
    LayerNorm,
    Linear,
    LocalResponseNorm,
    MatMul,
    Op,
    Reduce,
    RMSNorm,
    Softmax,
)

DType = np.dtype[Any]

_TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
_WIDE = np.dtype(np.float32)

#: Operations that read and write the narrow type.
_PRODUCTS: tuple[type[Op], ...] = (Convolution, Linear, MatMul)
#: Operations whose sums or powers a narrow type would not bear.
_EXACT: tuple[type[Op], ...] = (
    *(BatchNorm, CumulativeSum, GroupNorm, LayerNorm, LocalResponseNorm),
    *(Reduce, RMSNorm, Softmax),
)


def narrowed(graph: Graph, word: str) -> Graph:
    """Return a graph of float32 whose products are computed in a narrow type.

    Constants follow what they are computed with. Everything else keeps the type that it reads, and
    where it reads both, the wide one.

    Args:
        graph: the graph, with norms folded into convolutions already.
        word: ``float16`` or ``bfloat16``.

    Raises:
        PlanError: another type.
    """
    narrow = _TYPES.get(word)
    if narrow is None:
        raise PlanError(f"autocast={word!r} is not possible; allowed: {', '.join(_TYPES)}")
    builder = GraphBuilder()
    values = {name: builder.input(name, graph.values[name].type) for name in graph.inputs}
    casts: dict[tuple[str, DType], Value] = {}

    def value(name: str) -> Value:
        if name not in values:
            values[name] = builder.constant(graph.values[name].data, name=name)
        return values[name]

    def cast(given: Value, dtype: DType) -> Value:
        if given.type.dtype == dtype or given.type.dtype not in (_WIDE, narrow):
            return given
        key = (given.name, dtype)
        if key not in casts:
            name = f"{given.name} as {dtype.name}"
            casts[key] = builder.add(Cast(dtype), given, name=name)
        return casts[key]

    for node in graph.nodes:
        inputs = [value(name) for name in node.inputs]
        dtype = _type_of(node, inputs, narrow)
        inputs = inputs if dtype is None else [cast(one, dtype) for one in inputs]
        made = builder.add_all(node.op, *inputs, name=node.output)
        values.update(zip(node.outputs, made, strict=True))
    return builder.graph({public: value(name) for public, name in graph.outputs.items()})


def _type_of(node: Node, inputs: list[Value], narrow: DType) -> DType | None:
    """Return the type in which a node computes; None: in whichever types it reads."""
    if isinstance(node.op, _PRODUCTS):
        return narrow
    computed = {one.type.dtype for one in inputs if not one.is_constant}
    if isinstance(node.op, _EXACT) or {_WIDE, narrow} <= computed:
        return _WIDE
    return narrow if narrow in computed and not isinstance(node.op, Cast) else None
