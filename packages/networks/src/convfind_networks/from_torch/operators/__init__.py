"""The ATen operators that are supported, by name: a function each that adds to a graph."""

from __future__ import annotations

from convfind_networks.from_torch.node import AtenOperators
from convfind_networks.from_torch.operators import (
    activation,
    attention,
    convolution,
    elementwise,
    indexing,
    making,
    normalization,
    parts,
    pooling,
    products,
    rearrangement,
    recurrent,
    reduction,
)

OPERATORS: AtenOperators = {
    **activation.OPERATORS,
    **attention.OPERATORS,
    **convolution.OPERATORS,
    **elementwise.OPERATORS,
    **indexing.OPERATORS,
    **making.OPERATORS,
    **normalization.OPERATORS,
    **parts.OPERATORS,
    **pooling.OPERATORS,
    **products.OPERATORS,
    **rearrangement.OPERATORS,
    **recurrent.OPERATORS,
    **reduction.OPERATORS,
}

__all__ = ["OPERATORS"]
