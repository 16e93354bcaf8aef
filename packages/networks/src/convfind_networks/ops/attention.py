"""`Attention`: values weighted by how well their keys go with queries, heads wherever they lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op
from convfind_networks.ops.strided import StridedView
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class Attention(Op):
    """``softmax(scale * q @ k^T + mask) @ v`` for each head, its tensors parts of others.

    Reads the tensors in which q, k and v lie, and a mask, if there is one: of 4 dimensions, which
    are repeated to batch, heads, queries and keys; it may be of some sequences, by whose number
    the batch can be divided. A mask of bool says which keys a query sees, any other is added to
    scores.

    Attributes:
        shape: of the result, in which ``y`` says where heads lie.
        q: batch, heads, queries, depth.
        k: batch, heads or a divisor of them, keys, depth.
        v: batch, as many heads as keys have, keys, depth of its own.
        y: batch, heads, queries, depth of the values.
        scale: what scores are multiplied by.
        causal: whether a query sees keys up to its own place only.
        zeros: whether the result of a query that sees no key is 0; it is NaN otherwise.
    """

    shape: tuple[int, ...]
    q: StridedView
    k: StridedView
    v: StridedView
    y: StridedView
    scale: float = 1.0
    causal: bool = False
    zeros: bool = False

    def infer(
        self, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None
    ) -> TensorType:
        """Return the type of q with the shape of the result."""
        for view, one in ((self.q, q), (self.k, k), (self.v, v)):
            if one.dtype != q.dtype or not one.is_float or view.end > one.elements:
                raise GraphError(f"{view} of {one} is no part of it, or not of {q.dtype}")
        result = q.with_shape(self.shape)
        batch, heads, queries, depth = self.q.shape
        _, shared, keys, width = self.v.shape
        if (
            self.k.shape != (batch, shared, keys, depth)
            or self.v.shape[0] != batch
            or heads % shared
            or self.y.shape != (batch, heads, queries, width)
            or self.y.elements != result.elements
        ):
            raise GraphError(f"{self} of heads that do not go together")
        if mask is not None:
            sizes = zip(mask.shape[1:], (heads, queries, keys), strict=False)
            is_some = mask.rank == 4 and mask.shape[0] > 0 and batch % mask.shape[0] == 0
            if not is_some or any(one not in (1, size) for one, size in sizes):
                raise GraphError(f"a mask {mask} is not repeated to scores of {self}")
        return result

    def evaluate(self, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        """Compute weights relative to the largest score, and the sums of values."""
        repeats = self.q.shape[1] // self.k.shape[1]
        queries, keys, values = (
            view.of(np.ascontiguousarray(one))
            for view, one in ((self.q, q), (self.k, k), (self.v, v))
        )
        keys, values = (np.repeat(one, repeats, axis=1) for one in (keys, values))
        scores = self.scale * (queries @ np.swapaxes(keys, 2, 3))
        if mask is not None:
            mask = np.tile(mask, (len(scores) // len(mask), 1, 1, 1))
            is_seen = mask.dtype == np.bool_
            scores = np.where(mask, scores, -np.inf) if is_seen else scores + mask
        if self.causal:
            scores = np.where(np.tri(*scores.shape[2:], dtype=np.bool_), scores, -np.inf)
        most = scores.max(axis=3, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - most)
        found = (weights / weights.sum(axis=3, keepdims=True)) @ values
        result = np.empty(self.shape, found.dtype)
        self.y.of(result)[...] = np.where(most == -np.inf, 0, found) if self.zeros else found
        return result

    def macs(self, *_: TensorType) -> int:
        """Multiply-accumulate operations."""
        return self.q.elements * self.k.shape[2] + self.y.elements * self.k.shape[2]
