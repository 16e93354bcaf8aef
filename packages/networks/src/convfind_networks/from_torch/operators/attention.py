"""Attention, by itself and in the layers that PyTorch has as one operator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from convfind_networks.from_torch.node import AtenNode, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BinaryFunction,
    Epilogue,
    Expand,
    LayerNorm,
    Linear,
    MatMul,
    ReduceFunction,
    Softmax,
    Split,
    UnaryFunction,
    Where,
)
from convfind_networks.tensor_type import Array


def attention(node: AtenNode) -> Value:
    """aten.scaled_dot_product_attention; queries that may look at nothing get 0."""
    q, k, v = node.value("query"), node.value("key"), node.value("value")
    if node.get("dropout_p", 0.0):
        raise NotSupported("dropout")
    if node.get("enable_gqa", False):
        k, v = (_shared(node, one, q.shape[-3]) for one in (k, v))
    scores = _scores(node, q, k, node.get("scale", 1 / math.sqrt(q.shape[-1] or 1)))
    mask = node.optional("attn_mask")
    if node.get("is_causal", False):
        mask = node.const(np.tri(*scores.shape[-2:], dtype=np.bool_))
    visible: Value | None = None
    if mask is None or _hides_nothing(mask.data):
        pass
    elif mask.dtype == np.bool_:
        visible = mask
        scores = _only(node, visible, scores)
    else:
        visible = node.binary(BinaryFunction.GREATER, mask, -math.inf)
        scores = node.plus(scores, mask)
    weights = node.add(Softmax(scores.type.rank - 1), scores)
    if visible is not None and not _shows_each_something(visible.data):
        weights = node.add(Where(), visible, weights, node.const(0, like=q))
    return node.add(MatMul(), weights, v)


def multi_head_attention(node: AtenNode) -> tuple[Value, ...]:
    """aten._native_multi_head_attention, with the weights where they are wanted."""
    q, k, v = (node.value(name) for name in ("query", "key", "value"))
    y, weights = _projected(node, (q, k, v), int(node.get("num_head")))
    if not node.get("need_weights", True):
        return (y,)
    if node.get("average_attn_weights", True):
        weights = node.reduce(ReduceFunction.MEAN, weights, 1, keepdims=False)
    return y, weights


def encoder_layer(node: AtenNode) -> Value:
    """aten._transformer_encoder_layer_fwd: what nn.TransformerEncoderLayer is without gradients."""
    x, epsilon = node.value("src"), float(node.get("eps"))
    kind = ActivationKind.GELU if node.get("use_gelu") else ActivationKind.RELU

    def norm(x: Value, number: int) -> Value:
        scale, shift = (node.value(f"norm_{word}_{number}") for word in ("weight", "bias"))
        return node.add(LayerNorm(x.type.rank - 1, epsilon), x, scale, shift)

    def attended(x: Value) -> Value:
        return _projected(node, (x, x, x), int(node.get("num_heads")))[0]

    def fed_forward(x: Value) -> Value:
        inner = _linear(node, x, node.value("ffn_weight_1"), node.value("ffn_bias_1"))
        inner = node.add(Activate(Activation(kind)), inner)
        return _linear(node, inner, node.value("ffn_weight_2"), node.value("ffn_bias_2"))

    if node.get("norm_first"):
        x = node.plus(x, attended(norm(x, 1)))
        return node.plus(x, fed_forward(norm(x, 2)))
    x = norm(node.plus(x, attended(x)), 1)
    return norm(node.plus(x, fed_forward(x)), 2)


def _projected(node: AtenNode, parts: Sequence[Value], heads: int) -> tuple[Value, Value]:
    """Return attention between linear layers, batch first, and its weights.

    As PyTorch has it there, queries that may look at nothing get NaN.
    """
    q, k, v = (_of_heads(node, one, heads) for one in _queries_keys_values(node, parts))
    batch, _, length, depth = q.shape
    scores = _scores(node, q, k, 1 / math.sqrt(depth or 1))
    visible = _visible(node, scores.shape)
    if visible is not None:
        scores = _only(node, visible, scores)
    weights = node.add(Softmax(3), scores)
    y = node.transpose(node.add(MatMul(), weights, v), 0, 2, 1, 3)
    y = node.reshape(y, batch, length, heads * depth)
    return _linear(node, y, node.value("proj_weight"), node.value("proj_bias")), weights


def _queries_keys_values(node: AtenNode, parts: Sequence[Value]) -> Sequence[Value]:
    """Return three linear layers of three tensors, as one where these are the same."""
    weight, bias = node.value("qkv_weight"), node.value("qkv_bias")
    third = weight.shape[0] // 3
    if len({one.name for one in parts}) == 1:
        return node.add_all(Split(2, (third,) * 3), _linear(node, parts[0], weight, bias))
    weights, biases = (node.add_all(Split(0, (third,) * 3), one) for one in (weight, bias))
    layers = zip(parts, weights, biases, strict=True)
    return [_linear(node, *one) for one in layers]


def _linear(node: AtenNode, x: Value, weight: Value, bias: Value) -> Value:
    return node.add(Linear(Epilogue(bias=True)), x, weight, bias)


def _of_heads(node: AtenNode, x: Value, heads: int) -> Value:
    """Return batch, heads, sequence, depth."""
    batch, length, width = x.shape
    return node.transpose(node.reshape(x, batch, length, heads, width // heads), 0, 2, 1, 3)


def _scores(node: AtenNode, q: Value, k: Value, scale: float) -> Value:
    rank = k.type.rank
    turned = node.transpose(k, *range(rank - 2), rank - 1, rank - 2)
    return node.times(node.add(MatMul(), q, turned), scale)


def _only(node: AtenNode, visible: Value, scores: Value) -> Value:
    """Return scores that count for nothing where they are not visible."""
    return node.add(Where(), visible, scores, node.const(-math.inf, like=scores))


def _visible(node: AtenNode, scores: tuple[int, ...]) -> Value | None:
    """Return which scores count: numbers other than 0 hide them, minus infinity among them."""
    mask, kind = node.optional("mask"), node.get("mask_type")
    if mask is None:
        return None
    batch, _, queries, keys = scores
    if mask.shape == scores:
        wide = mask
    elif (kind, mask.shape) == (0, (queries, keys)):
        wide = node.reshape(mask, 1, 1, queries, keys)
    elif (kind, mask.shape) == (1, (batch, keys)):
        wide = node.reshape(mask, batch, 1, 1, keys)
    else:
        raise NotSupported(f"a mask {mask.type} with mask_type {kind}")
    return node.unary(UnaryFunction.NOT, node.cast(wide, np.bool_))


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
    "scaled_dot_product_attention": attention,
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
}
