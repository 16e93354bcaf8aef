"""Options under which a find compiles one small kernel and measures nothing."""

from __future__ import annotations

from typing import Any

import torch

from convfind_torch.layer import Layer
from convfind_torch.place import AddressedRun

#: One solver for each direction, which takes every type and layout.
NAIVE = ("direct-naive-fwd", "direct-naive-bwd-data", "direct-naive-bwd-weights")
QUICK: dict[str, Any] = {"mode": "FAST", "solvers": NAIVE, "keep_faster": False}

#: Relative errors that rounding explains, for sums of some hundred products.
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 2e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}


def assert_close(got: torch.Tensor | None, right: torch.Tensor | None, dtype: torch.dtype) -> None:
    """Compare with a tensor of float64, by the largest of its elements."""
    assert (got is None) == (right is None)
    if got is None or right is None:
        return
    assert got.dtype is dtype
    assert got.shape == right.shape
    if right.numel():
        got, right = got.detach().double(), right.detach().double()
        error = (got - right).abs().max() / right.abs().max().clamp(min=1)
        assert float(error) <= TOLERANCE[dtype]


def addressed(layer: Layer) -> bool:
    """Return whether all kernels of a layer run at the addresses of tensors."""
    ways = [route.way for route in layer.routes]
    return all(way is not None and isinstance(way.ready, AddressedRun) for way in ways)
