"""`Linear`: a fully connected layer with its epilogue."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from convfind_networks.errors import GraphError
from convfind_networks.ops.epilogue import NO_EPILOGUE, Epilogue
from convfind_networks.ops.op import Op, scaled
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class Linear(Op):
    """A fully connected layer with an epilogue: ``x @ w.T``.

    Reads x (..., C), w (K, C), then what the epilogue reads.
    """

    channel_axis: ClassVar[int] = -1

    epilogue: Epilogue = NO_EPILOGUE

    @property
    def in_place(self) -> tuple[int, ...]:  # type: ignore[override]  # which depends on it
        """The residual, unless it is added last."""
        return self.epilogue.in_place

    def infer(self, x: TensorType, w: TensorType, *more: TensorType) -> TensorType:
        """Return the type of the result: (..., K)."""
        if x.dtype != w.dtype:
            raise GraphError(f"x and w are of one type, not {x} and {w}")
        if x.rank < 1 or w.rank != 2 or x.shape[-1] != w.shape[1]:
            raise GraphError(f"x is (..., C) and w is (K, C), not {x} and {w}")
        result = x.with_shape((*x.shape[:-1], w.shape[0]))
        self.epilogue.check(result, w.shape[0], more)
        return result

    def evaluate(self, x: Array, w: Array, *more: Array) -> Array:
        """Compute the product, then the epilogue."""
        return self.epilogue.apply(x @ w.T, self.channel_axis, more)

    def macs(self, x: TensorType, w: TensorType, *_: TensorType) -> int:
        """Multiply-accumulate operations."""
        return math.prod(x.shape[:-1]) * math.prod(w.shape)

    def scaled_weights(self, w: Array, by: Array) -> Array:
        """Return weights that give results scaled by a number for each output channel."""
        return scaled(w, by[:, None])
