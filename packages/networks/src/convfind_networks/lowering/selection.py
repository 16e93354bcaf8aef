"""Products of matrices, elements that are picked by index, resizing, and scans along an axis."""

from __future__ import annotations

from convfind_networks.graph import Node
from convfind_networks.lowering.call import Call, Surroundings
from convfind_networks.lowering.operator import operator
from convfind_networks.ops import (
    ArgReduce,
    CumulativeProduct,
    CumulativeSum,
    Gather,
    GatherElements,
    LocalResponseNorm,
    MatMul,
    Resize,
    ScatterElements,
    TopK,
)


def matmul(around: Surroundings, node: Node) -> Call:
    """Lower products of two computed matrices."""
    op = node.op
    assert isinstance(op, MatMul)
    a, b = node.inputs
    operands = {"a": a, "b": b, "y": node.output}
    how = {"a": around.type(a).shape, "b": around.type(b).shape, "alpha": op.alpha}
    return operator(around, node, "matmul", operands, **how)


def gather(around: Surroundings, node: Node) -> Call:
    """Lower slices or elements that are picked by computed indices."""
    op = node.op
    assert isinstance(op, (Gather, GatherElements))
    x, indices = node.inputs
    return operator(
        around,
        node,
        "gather" if isinstance(op, Gather) else "gather-elements",
        {"x": x, "indices": indices, "y": node.output},
        x=around.type(x).shape,
        indices=around.type(indices).shape,
        axis=op.axis,
        index_dtype=around.type(indices).dtype.name,
    )


def resize(around: Surroundings, node: Node) -> Call:
    """Lower an interpolation to another size."""
    op = node.op
    assert isinstance(op, Resize)
    return _of_one(
        around,
        node,
        "resize",
        sizes=op.sizes,
        scales=op.scales,
        interpolation=op.interpolation.value,
        coordinates=op.coordinates.value,
        rounding=op.rounding.value,
        cubic=op.cubic,
        exclude_outside=op.exclude_outside,
        antialias=op.antialias,
        region=op.region,
        outside=op.outside,
    )


def arg_reduce(around: Surroundings, node: Node) -> Call:
    """Lower the place of the largest or least element along an axis."""
    op = node.op
    assert isinstance(op, ArgReduce)
    how = {"axis": op.axis, "largest": op.largest, "keepdims": op.keepdims, "last": op.last}
    return _of_one(around, node, "arg-reduction", **how)


def cumulative_sum(around: Surroundings, node: Node) -> Call:
    """Lower the sums or products up to each element along an axis."""
    op = node.op
    assert isinstance(op, CumulativeSum)
    how = {"axis": op.axis, "exclusive": op.exclusive, "reverse": op.reverse}
    is_product = isinstance(op, CumulativeProduct)
    return _of_one(around, node, f"cumulative-{'product' if is_product else 'sum'}", **how)


def scatter(around: Surroundings, node: Node) -> Call:
    """Lower elements that are replaced at computed indices."""
    op = node.op
    assert isinstance(op, ScatterElements)
    x, indices, updates = node.inputs
    return operator(
        around,
        node,
        "scatter-elements",
        {"x": x, "indices": indices, "updates": updates, "y": node.output},
        x=around.type(x).shape,
        indices=around.type(indices).shape,
        axis=op.axis,
        combine=op.combine.value,
        index_dtype=around.type(indices).dtype.name,
    )


def top_k(around: Surroundings, node: Node) -> Call:
    """Lower the largest or least elements along an axis."""
    op = node.op
    assert isinstance(op, TopK)
    (x,) = node.inputs
    operands = {"x": x, **dict(zip(("y", "indices"), node.outputs, strict=True))}
    how = {"count": op.count, "axis": op.axis, "largest": op.largest}
    return operator(around, node, "top-k", operands, x=around.type(x).shape, **how)


def local_response_norm(around: Surroundings, node: Node) -> Call:
    """Lower a local response norm."""
    op = node.op
    assert isinstance(op, LocalResponseNorm)
    how = {"size": op.size, "alpha": op.alpha, "beta": op.beta, "bias": op.bias}
    return _of_one(around, node, "local-response-norm", **how)


def _of_one(around: Surroundings, node: Node, kind: str, **fields: object) -> Call:
    x = node.inputs[0]
    operands = {"x": x, "y": node.output}
    return operator(around, node, kind, operands, x=around.type(x).shape, **fields)
