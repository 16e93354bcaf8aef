"""`AttentionProblem`: values weighted by how well their keys go with queries, in one operator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from convfind.cached import cached_property
from convfind.errors import ProblemError
from convfind_operators.element_type import ElementType
from convfind_operators.operand import Array, Operand, Shape
from convfind_operators.operator import Operator, number, shape_of, word

#: The largest error of a product of floats near which TF32 numbers are, and of such in two parts.
_TF32, _PARTS = 2 * 2.0**-10.6, 2.0**-20
#: Half of the least number of float16, which a rounded weight may be off by.
_LEAST_WEIGHT = 2.0**-25


@dataclass(frozen=True, kw_only=True)
class AttentionProblem(Operator):
    """``y = softmax(scale * q @ k^T + mask) @ v`` for each head.

    Tensors that lie in another order, such as those between which sequences have heads, or that are
    parts of one tensor, are those with such strides. In types of 16 bits weights are rounded.

    Attributes:
        q: batch, heads, queries, depth.
        k: batch, heads or a divisor of them, keys, depth: neighbouring heads share keys.
        v: as k, with a depth of its own.
        mask: a shape that is repeated to batch, heads, queries, keys, for some sequences, by whose
            number the batch can be divided, one time after the other; None: there is none.
        mask_dtype: ``bool``: which keys a query sees; floating types: what is added to scores.
        scale: what scores are multiplied by; None: one over the root of the depth.
        causal: whether a query sees keys up to its own place only.
        zeros: whether the result of a query that sees no key is 0; it is NaN otherwise.
        starts: elements before the first of q, k or v in its memory, by name, as strides are.
        allow_tf32: whether factors of float32 may be rounded to TF32.
    """

    kind: ClassVar[str] = "attention"

    q: Shape
    k: Shape
    v: Shape
    mask: Shape | None = None
    mask_dtype: ElementType = ElementType.FLOAT32
    scale: float | None = None
    causal: bool = False
    zeros: bool = False
    starts: tuple[tuple[str, int], ...] | Mapping[str, int] = ()
    allow_tf32: bool = False

    def __post_init__(self) -> None:
        for name in ("q", "k", "v"):
            self._set(name, shape_of(name, getattr(self, name)))
            if len(getattr(self, name)) != 4:
                raise ProblemError(name, getattr(self, name), "batch, heads, sequence, depth")
        if self.k[0] != self.batch or self.k[3] != self.depth or self.k[1] < 1:
            raise ProblemError("k", self.k, f"{self.batch} sequences of depth {self.depth}")
        if self.heads % self.k[1]:
            raise ProblemError("k", self.k, f"a divisor of {self.heads} heads")
        if self.v[:3] != self.k[:3]:
            raise ProblemError("v", self.v, f"as many values as keys: {self.k[:3]}")
        self._set("mask_dtype", word("mask_dtype", ElementType, self.mask_dtype))
        if self.mask is None:
            self._set("mask_dtype", ElementType.FLOAT32)
        else:
            self._set("mask", shape_of("mask", self.mask))
            ends = zip(self.mask[1:], self.scores[1:], strict=False)
            is_some = len(self.mask) == 4 and self.batch % (self.mask[0] or self.batch + 1) == 0
            if not is_some or any(one not in (1, other) for one, other in ends):
                raise ProblemError("mask", self.mask, f"a shape that is repeated to {self.scores}")
        if not (self.mask_dtype.is_float or self.mask_dtype is ElementType.BOOL):
            raise ProblemError("mask_dtype", self.mask_dtype, "bool or floating types")
        usual = 1 / math.sqrt(self.depth or 1)  # products of nothing are 0, whatever the scale
        self._set("scale", usual if self.scale is None else number("scale", self.scale))
        starts = {name: int(start) for name, start in dict(self.starts).items()}
        self._set("starts", tuple(sorted(one for one in starts.items() if one[1])))
        if not starts.keys() <= {"q", "k", "v"} or min(starts.values(), default=0) < 0:
            raise ProblemError("starts", starts, "numbers from 0 on for q, k and v")
        super().__post_init__()
        if not self.dtype.is_float:
            raise ProblemError("dtype", self.dtype, "floating types")
        if self.dtype is not ElementType.FLOAT32:
            self._set("allow_tf32", False)  # the same, as other types are not rounded to it

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors in memory, in the order of a call."""
        starts = dict(self.starts)
        return tuple(replace(one, start=starts.get(one.name, 0)) for one in super().operands)

    @property
    def traits(self) -> frozenset[str]:
        """The special properties: gaps in the memory of an operand."""
        return frozenset({"gaps"} if self.strides or self.starts else ())

    @property
    def batch(self) -> int:
        """Sequences."""
        return self.q[0]

    @property
    def heads(self) -> int:
        """Heads of queries."""
        return self.q[1]

    @property
    def sharing(self) -> int:
        """Heads of queries that share keys and values."""
        return self.heads // self.k[1]

    @property
    def queries(self) -> int:
        """Queries of a sequence."""
        return self.q[2]

    @property
    def keys(self) -> int:
        """Keys, and values, of a sequence."""
        return self.k[2]

    @property
    def depth(self) -> int:
        """Elements of a query, and of a key."""
        return self.q[3]

    @property
    def values(self) -> int:
        """Elements of a value, and of a result."""
        return self.v[3]

    @property
    def scores(self) -> Shape:
        """The shape of what goes through softmax."""
        return (self.batch, self.heads, self.queries, self.keys)

    @property
    def factor(self) -> float:
        """The scale."""
        assert self.scale is not None
        return self.scale

    def _tensors(self) -> tuple[tuple[str, Shape, ElementType], ...]:
        mask = () if self.mask is None else (("mask", self.mask, self.mask_dtype),)
        tensors = tuple((name, getattr(self, name), self.dtype) for name in ("q", "k", "v"))
        return (*tensors, *mask, ("y", (*self.q[:3], self.values), self.dtype))

    @property
    def flops(self) -> float:
        """Two for each product; half of them where keys are as many as queries that see half."""
        products = math.prod(self.scores) * (self.depth + self.values)
        return float(products if self.causal and self.keys == self.queries else 2 * products)

    # -- checking -----------------------------------------------------------------------------

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Compute the weights relative to the largest score, and the sums of values."""
        weights, _, is_blind = self._weights(inputs)
        y = weights @ self._of_heads(inputs["v"])
        return {"y": np.where(is_blind, 0.0, y) if self.zeros else y}

    def _of_heads(self, x: Array) -> Array:
        return np.repeat(x, self.sharing, axis=1)

    def _of_batch(self, mask: Array) -> Array:
        return np.tile(mask, (self.batch // len(mask), 1, 1, 1)) if self.batch else mask[:0]

    def _weights(self, inputs: Mapping[str, Array]) -> tuple[Array, Array, Array]:
        """Return the weights, the scores, and which queries see nothing."""
        q, k = inputs["q"], self._of_heads(inputs["k"])
        scores = self.factor * (q @ np.swapaxes(k, 2, 3))
        if self.mask is not None:
            mask = self._of_batch(inputs["mask"])
            is_seen = self.mask_dtype is ElementType.BOOL
            scores = np.where(mask, scores, -np.inf) if is_seen else scores + mask
        if self.causal:
            scores = np.where(np.tri(self.queries, self.keys, dtype=np.bool_), scores, -np.inf)
        most = scores.max(axis=3, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - most)
        return weights / weights.sum(axis=3, keepdims=True), scores, most == -np.inf

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return what roundings of factors, scores, exponentials, weights and sums come to.

        An error of a score is a share of its weight, and of the sum that all are divided by.
        """
        unit = self.dtype.arithmetic.unit_roundoff
        q, k, v = inputs["q"], self._of_heads(inputs["k"]), np.abs(self._of_heads(inputs["v"]))
        weights, scores, _ = self._weights(inputs)
        products = abs(self.factor) * (np.abs(q) @ np.swapaxes(np.abs(k), 2, 3))
        sizes = np.where(np.isfinite(scores), np.abs(scores), 0)
        added = np.zeros(1)
        if self.mask is not None and self.mask_dtype.is_float:
            added = self._of_batch(inputs["mask"])
            added = np.where(np.isfinite(added), np.abs(added), 0)
        factors = 0.0
        if self.dtype is ElementType.FLOAT32:
            factors = _TF32 if self.allow_tf32 else _PARTS
        exponents = (self.depth + 8 + factors / unit) * products + 4 * added
        exponents = exponents + 3 * (sizes + sizes.max(axis=3, keepdims=True, initial=0)) + 24
        exponents = np.where(weights == 0, 0, exponents)  # what no one sees may be infinite
        shares = weights * np.expm1(unit * exponents)
        sums = weights @ v
        allowed = shares @ v + shares.sum(axis=3, keepdims=True) * sums
        allowed = allowed + (3 * (self.keys + 8) * unit + factors) * sums
        if self.dtype.size == 2:
            allowed = allowed + self.dtype.unit_roundoff * sums
        if self.dtype is ElementType.FLOAT16:
            allowed = allowed + _LEAST_WEIGHT * v.sum(axis=2, keepdims=True)
            # A weight may be rounded to zero, whose product with an infinity is no number.
            lost = (weights < _LEAST_WEIGHT).astype(np.float64) @ np.isinf(v)
            allowed = np.where(lost > 0, np.nan, allowed)
        return {"y": allowed}
