"""`Rotary`: elements turned with those of the other half of their row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.op import Op
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True)
class Rotary(Op):
    """``x * cos + swapped(x) * sin``, where the halves of each row are swapped.

    Reads x, the factors of its own elements, and those of the other half's; both are repeated to
    the shape of x. Where the latter are negative in the first half, positions are embedded so.
    """

    def infer(self, x: TensorType, cos: TensorType, sin: TensorType) -> TensorType:
        """Return the type of x."""
        if not x.is_float or not x.rank or x.shape[-1] % 2:
            raise GraphError(f"rows are of an even number of floating elements, not {x}")
        for factor in (cos, sin):
            sizes = zip(factor.shape[::-1], x.shape[::-1], strict=False)
            is_repeated = factor.rank <= x.rank and all(one in (1, size) for one, size in sizes)
            if factor.dtype != x.dtype or not is_repeated:
                raise GraphError(f"{factor} is not repeated to {x}")
        return x

    def evaluate(self, x: Array, cos: Array, sin: Array) -> Array:
        """Swap the halves, and add the products."""
        swapped = np.concatenate(np.split(x, 2, axis=-1)[::-1], axis=-1)
        return np.asarray(x * cos + swapped * sin)
