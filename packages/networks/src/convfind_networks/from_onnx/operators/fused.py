"""ONNX Runtime's operators that are several of ONNX's in one, as its optimizer writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperator, OnnxOperators
from convfind_networks.from_onnx.operators.convolution import convolution
from convfind_networks.from_onnx.operators.normalization import rms_norm
from convfind_networks.from_onnx.operators.products import gemm
from convfind_networks.from_onnx.operators.rearrangement import trilu
from convfind_networks.from_onnx.operators.sampling import grid_sample
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    BinaryFunction,
    Gather,
    LayerNorm,
    Linear,
    MatMul,
    ReduceFunction,
    RMSNorm,
    Softmax,
    Split,
    Where,
)

#: Activations by the names that attributes have, and how many numbers follow.
_ACTIVATIONS = {
    "Relu": (ActivationKind.RELU, 0),
    "Tanh": (ActivationKind.TANH, 0),
    "Sigmoid": (ActivationKind.SIGMOID, 0),
    "LeakyRelu": (ActivationKind.LEAKY_RELU, 1),
    "Clip": (ActivationKind.CLIP, 2),
    "HardSigmoid": (ActivationKind.HARD_SIGMOID, 2),
}


def _activated(node: OnnxNode, x: Value, numbers: tuple[float, ...]) -> Value:
    """Return x after the activation that the node names."""
    word = node.word("activation", "")
    if not word:
        return x
    if word not in _ACTIVATIONS:
        raise NotSupported(f"activation {word}")
    kind, count = _ACTIVATIONS[word]
    if len(numbers) < count:
        raise NotSupported(f"activation {word} of {numbers}")
    return node.add(Activate(Activation(kind, numbers[:count])), x)


def fused_convolution(node: OnnxNode) -> Value:
    """FusedConv: a convolution, another tensor, an activation."""
    y = convolution(node)
    if (other := node.optional(3)) is not None:
        y = node.plus(y, other)
    return _activated(node, y, node.reals("activation_params"))


def fused_gemm(node: OnnxNode) -> Value:
    """FusedGemm: Gemm and an activation."""
    names = ("activation_alpha", "activation_beta")
    given = [one for one in map(node.attribute, names) if one is not None]
    return _activated(node, gemm(node), tuple(map(float, given)))


def fused_matmul(node: OnnxNode) -> Value:
    """FusedMatMul, TransposeMatMul: ``alpha * a @ b``, each perhaps transposed before."""
    if node.integer("transBatchA", 0) or node.integer("transBatchB", 0):
        raise NotSupported("batches that are transposed")
    a, b = (
        _turned(node, node.input(at)) if node.integer(name, 0) else node.input(at)
        for at, name in enumerate(("transA", "transB"))
    )
    return node.times(node.add(MatMul(), a, b), node.real("alpha", 1.0))


def _turned(node: OnnxNode, x: Value) -> Value:
    rank = x.type.rank
    return x if rank < 2 else node.transpose(x, *range(rank - 2), rank - 1, rank - 2)


def _gelu(kind: ActivationKind) -> OnnxOperator:
    """Return the function of an operator that adds a bias, if there is one, before GELU."""

    def add(node: OnnxNode) -> Value:
        x, bias = node.input(0), node.optional(1)
        x = x if bias is None else node.plus(x, bias)
        return node.add(Activate(Activation(kind)), x)

    return add


def quick_gelu(node: OnnxNode) -> Value:
    """QuickGelu: x times the sigmoid of alpha * x."""
    x = node.input(0)
    inner = node.times(x, node.real("alpha", 1.702))
    return node.times(x, node.add(Activate(Activation(ActivationKind.SIGMOID)), inner))


def _after_skip(*, has_mean: bool) -> OnnxOperator:
    """Return the function of an operator that normalizes a sum, and may return it."""

    def add(node: OnnxNode) -> tuple[Value, ...]:
        x, skip, scale = (node.input(at) for at in range(3))
        shift, bias = (node.optional(3), node.optional(4)) if has_mean else (None, node.optional(3))
        if node.has_output(1) or node.has_output(2):
            raise NotSupported("only the first and the fourth of its results are computed")
        total = node.plus(x, skip)
        total = total if bias is None else node.plus(total, bias)
        axis, epsilon = total.type.rank - 1, node.real("epsilon", 1e-12)
        op = LayerNorm(axis, epsilon) if has_mean else RMSNorm(axis, epsilon)
        y = node.add(op, *filter(None, (total, scale, shift)))
        return y, y, y, total

    return add


def simplified_layer_norm(node: OnnxNode) -> Value:
    """SimplifiedLayerNormalization: RMSNormalization before ONNX had it."""
    node.only_outputs(1)
    return rms_norm(node)


def embedded(node: OnnxNode) -> tuple[Value, ...]:
    """EmbedLayerNormalization: words, places and segments looked up, added and normalized."""
    words, segments = node.input(0), node.optional(1)
    batch, length = words.shape
    places = node.optional(8)
    if places is None:
        places = node.const(np.arange(length).reshape(1, length))
    total = node.add(Gather(0), node.input(2), words)
    total = node.plus(total, node.add(Gather(0), node.input(3), places))
    if segments is not None:
        total = node.plus(total, node.add(Gather(0), node.input(4), segments))
    y = node.add(LayerNorm(2, node.real("epsilon", 1e-12)), total, node.input(5), node.input(6))
    mask = node.optional(7)
    lengths = node.const(np.zeros(batch, np.int32))
    if mask is not None:
        lengths = node.reduce(ReduceFunction.SUM, node.cast(mask, np.int32), 1, keepdims=False)
    return y, lengths, total


def attention(node: OnnxNode) -> Value:
    """Attention as ONNX Runtime has it: three products, and heads of softmax between them."""
    node.only_outputs(1)
    x, weights, bias, mask = node.input(0), node.input(1), node.optional(2), node.optional(3)
    if node.optional(4) is not None or node.optional(6) is not None:
        raise NotSupported("keys and values of the past")
    if node.integer("do_rotary", 0):
        raise NotSupported("rotary embedding")
    whole = weights.shape[1]
    sizes = node.integers("qkv_hidden_sizes", (whole // 3,) * 3)
    product = node.add(Linear(), x, node.transpose(weights, 1, 0))
    product = product if bias is None else node.plus(product, bias)
    return _of_heads(node, node.add_all(Split(2, sizes), product), mask, node.optional(5))


def multi_head_attention(node: OnnxNode) -> Value:
    """MultiHeadAttention: as Attention, of queries, keys and values that are there already."""
    node.only_outputs(1)
    if any(node.optional(at) is not None for at in range(6, 10)):
        raise NotSupported("keys and values of the past")
    given = [node.optional(at) for at in range(3)]
    parts = [one for one in given if one is not None and one.type.rank == 3]
    if len(parts) < 3:
        raise NotSupported("queries, keys or values in one tensor, or in heads")
    bias = node.optional(3)
    if bias is not None:
        pieces = node.add_all(Split(0, tuple(one.shape[2] for one in parts)), bias)
        parts = [node.plus(one, piece) for one, piece in zip(parts, pieces, strict=True)]
    return _of_heads(node, parts, node.optional(4), node.optional(5))


def _of_heads(
    node: OnnxNode, parts: Sequence[Value], mask: Value | None, more: Value | None
) -> Value:
    """Return values weighted by softmax of products, in the heads that three tensors are of."""
    heads = node.integer("num_heads", 1)
    batch, length, width = parts[0].shape
    keys = parts[1].shape[1]
    of_heads = (node.reshape(one, *one.shape[:2], heads, one.shape[2] // heads) for one in parts)
    q, k, v = (node.transpose(one, 0, 2, 1, 3) for one in of_heads)
    scale = node.real("scale", 0.0) or 1 / math.sqrt(width / heads)
    scores = node.times(node.add(MatMul(), q, _turned(node, k)), scale)
    if mask is not None:  # where it hides everything, each score is as much lower
        numbers = 0.0, node.real("mask_filter_value", -10000.0)
        bounds = (node.const(one, like=scores) for one in numbers)
        scores = node.plus(scores, node.add(Where(), _visible(node, mask, batch, keys), *bounds))
    if node.integer("unidirectional", 0):
        seen = np.tri(length, keys, dtype=np.bool_)
        seen[-1] = True  # ONNX Runtime hides nothing from the last query, more keys or not
        before = node.const(seen)
        limits: Any = ml_dtypes.finfo(scores.dtype)  # type: ignore[no-untyped-call]
        least = node.const(float(limits.min), like=scores)
        scores = node.add(Where(), before, scores, least)
    if more is not None:
        scores = node.plus(scores, more)
    found = node.add(MatMul(), node.add(Softmax(3), scores), v)
    return node.reshape(node.transpose(found, 0, 2, 1, 3), batch, length, parts[2].shape[2])


def _visible(node: OnnxNode, mask: Value, batch: int, length: int) -> Value:
    """Return which keys each query sees: mask has a number for each, or how many there are."""
    if mask.shape == (batch,):
        places = node.const(np.arange(length, dtype=mask.dtype).reshape(1, 1, 1, length))
        ends = node.reshape(mask, batch, 1, 1, 1)
        return node.binary(BinaryFunction.LESS, places, ends)
    if mask.type.rank not in (2, 3, 4) or mask.shape[0] != batch:
        raise NotSupported(f"a mask {mask.type}")
    shape = (batch, *(1,) * (4 - mask.type.rank), *mask.shape[1:])
    return node.cast(node.reshape(mask, *shape), np.bool_)


CONTRIBUTED: OnnxOperators = {
    "FusedConv": fused_convolution,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "Gelu": _gelu(ActivationKind.GELU),
    "BiasGelu": _gelu(ActivationKind.GELU),
    "FastGelu": _gelu(ActivationKind.GELU_TANH),
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": _after_skip(has_mean=True),
    "SkipSimplifiedLayerNormalization": _after_skip(has_mean=False),
    "EmbedLayerNormalization": embedded,
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
    "GridSample": grid_sample,
    "Trilu": trilu,
}
OPERATORS: OnnxOperators = {"SimplifiedLayerNormalization": simplified_layer_norm}
