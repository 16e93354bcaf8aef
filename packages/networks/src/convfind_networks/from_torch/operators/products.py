"""Matrix products, and what is made of them."""

from __future__ import annotations

from convfind_networks.einsum import einsum
from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.ops import (
    Epilogue,
    Linear,
    MatMul,
    ReduceFunction,
)


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
}
