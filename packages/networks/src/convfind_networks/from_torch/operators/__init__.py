"""The ATen operators that are supported, by name: a function each that adds to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from convfind_networks.from_torch.node import AtenNode
from convfind_networks.from_torch.operators import (
    convolution,
    elementwise,
    normalization,
    pooling,
    rearrangement,
)
from convfind_networks.graph import Value

OPERATORS: Mapping[str, Callable[[AtenNode], Value | tuple[Value, ...]]] = {
    **convolution.OPERATORS,
    **elementwise.OPERATORS,
    **normalization.OPERATORS,
    **pooling.OPERATORS,
    **rearrangement.OPERATORS,
}

__all__ = ["OPERATORS"]
