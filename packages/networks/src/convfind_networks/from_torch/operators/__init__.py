"""The ATen operators that are supported, by name: a function each that adds to a graph."""

from __future__ import annotations

from convfind_networks.from_torch.node import AtenOperators
from convfind_networks.from_torch.operators import (
    convolution,
    elementwise,
    normalization,
    pooling,
    rearrangement,
    recurrent,
)

OPERATORS: AtenOperators = {
    **convolution.OPERATORS,
    **elementwise.OPERATORS,
    **normalization.OPERATORS,
    **pooling.OPERATORS,
    **rearrangement.OPERATORS,
    **recurrent.OPERATORS,
}

__all__ = ["OPERATORS"]
