"""Matrix products, and what is made of them."""

from __future__ import annotations

import math

import numpy as np

from convfind_networks.einsum import einsum
from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    BinaryFunction,
    Epilogue,
    Expand,
    Linear,
    MatMul,
    ReduceFunction,
    Softmax,
    Where,
)
from convfind_networks.tensor_type import Array


def linear(node: AtenNode) -> Value:
    """aten.linear."""
    x, w, bias = node.value("input"), node.value("weight"), node.optional("bias")
    return node.add(Linear(Epilogue(bias=bias is not None)), *filter(None, (x, w, bias)))


def matmul(node: AtenNode) -> Value:
    """aten.matmul, mm, bmm, mv, dot."""
    a = node.value()
    others = (node.optional(name) for name in ("other", "mat2", "vec", "tensor"))
    (b,) = (one for one in others if one is not None)
    return node.add(MatMul(), a, b)


def addmm(node: AtenNode) -> Value:
    """aten.addmm, baddbmm, addmv: beta * self + alpha * a @ b."""
    a = node.optional("mat1") or node.optional("batch1") or node.value("mat")
    b = node.optional("mat2") or node.optional("batch2") or node.value("vec")
    product = node.times(node.add(MatMul(), a, b), node.get("alpha", 1))
    beta = node.get("beta", 1)
    return product if beta == 0 else node.plus(product, node.times(node.value(), beta))


def outer(node: AtenNode) -> Value:
    """aten.outer, ger: each element by each."""
    dtype = node.dtype()
    a, b = (node.typed(node.get(name), dtype) for name in ("self", "vec2"))
    return node.times(node.reshape(a, a.type.elements, 1), b)


def sum_of_products(node: AtenNode) -> Value:
    """aten.einsum."""
    return einsum(node, node.get("equation"), node.get("tensors"))


def normalized_weights(node: AtenNode) -> Value:
    """aten._weight_norm: a direction for each slice along an axis, and its length."""
    v, length = node.value("v"), node.value("g")
    kept = int(node.get("dim", 0))
    axes = (axis for axis in range(v.type.rank) if kept == -1 or axis != kept % v.type.rank)
    return node.times(v, node.over(length, node.reduce(ReduceFunction.L2, v, *axes)))


def attention(node: AtenNode) -> Value:
    """aten.scaled_dot_product_attention; queries that may look at nothing get 0."""
    q, k, v = node.value("query"), node.value("key"), node.value("value")
    if node.get("dropout_p", 0.0):
        raise NotSupported("dropout")
    if node.get("enable_gqa", False):
        k, v = (_shared(node, one, q.shape[-3]) for one in (k, v))
    rank = k.type.rank
    turned = node.transpose(k, *range(rank - 2), rank - 1, rank - 2)
    scale = node.get("scale", 1 / math.sqrt(q.shape[-1] or 1))
    scores = node.times(node.add(MatMul(), q, turned), scale)
    mask = node.optional("attn_mask")
    if node.get("is_causal", False):
        mask = node.const(np.tri(*scores.shape[-2:], dtype=np.bool_))
    visible: Value | None = None
    if mask is None or _hides_nothing(mask.data):
        pass
    elif mask.dtype == np.bool_:
        visible = mask
        scores = node.add(Where(), mask, scores, node.const(-math.inf, like=q))
    else:
        visible = node.binary(BinaryFunction.GREATER, mask, -math.inf)
        scores = node.plus(scores, mask)
    weights = node.add(Softmax(scores.type.rank - 1), scores)
    if visible is not None and not _shows_each_something(visible.data):
        weights = node.add(Where(), visible, weights, node.const(0, like=q))
    return node.add(MatMul(), weights, v)


def _shared(node: AtenNode, x: Value, heads: int) -> Value:
    """Return keys or values of groups of queries' heads, for each head."""
    *batch, own, length, depth = x.shape
    wide = node.reshape(x, *batch, own, 1, length, depth)
    spread = node.add(Expand((*batch, own, heads // own, length, depth)), wide)
    return node.reshape(spread, *batch, heads, length, depth)


def _hides_nothing(mask: Array | None) -> bool:
    return mask is not None and mask.dtype == np.bool_ and bool(mask.all())


def _shows_each_something(visible: Array | None) -> bool:
    return visible is not None and bool(visible.any(axis=-1).all())


OPERATORS: AtenOperators = {
    "linear": linear,
    "matmul": matmul,
    "linalg_matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "mv": matmul,
    "dot": matmul,
    "addmm": addmm,
    "baddbmm": addmm,
    "addmv": addmm,
    "outer": outer,
    "ger": outer,
    "einsum": sum_of_products,
    "_weight_norm": normalized_weights,
    "scaled_dot_product_attention": attention,
}
