"""New tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.ops import Expand


def arange(node: AtenNode) -> Value:
    """aten.arange."""
    return node.const(
        np.arange(node.get("start", 0), node.get("end"), node.get("step", 1)).astype(node.dtype())
    )


def spaced(node: AtenNode) -> Value:
    """aten.linspace."""
    numbers = np.linspace(node.get("start"), node.get("end"), int(node.get("steps")))
    return node.const(numbers.astype(node.dtype()))


def identity_matrix(node: AtenNode) -> Value:
    """aten.eye."""
    return node.const(np.eye(node.get("n"), node.get("m")).astype(node.dtype()))


def _shape(node: AtenNode) -> tuple[int, ...]:
    """Return the sizes that are given, or those of the tensor that the new one is like."""
    sizes = node.get("size")
    return node.value().shape if sizes is None else tuple(int(size) for size in sizes)


def _filled(usual: Any) -> AtenOperator:
    """Return the function of an operator that makes a tensor of one number."""

    def add(node: AtenNode) -> Value:
        number = node.get("fill_value", usual)
        if isinstance(number, Value):
            return node.add(Expand(_shape(node)), node.reshape(node.cast(number, node.dtype())))
        return node.const(np.broadcast_to(np.asarray(number, node.dtype()), _shape(node)))

    return add


def fill(node: AtenNode) -> Value:
    """aten.fill, zero: one number in place of all."""
    x = node.value()
    number = node.typed(node.get("value", 0), x.dtype)
    return node.add(Expand(x.shape), node.reshape(number))


def copy(node: AtenNode) -> Value:
    """aten.copy: another tensor's elements in place of all."""
    x = node.value()
    return node.add(Expand(x.shape), node.cast(node.value("src"), x.dtype))


def scalar(node: AtenNode) -> Value:
    """aten.scalar_tensor."""
    return node.const(np.asarray(node.get("s"), node.dtype()))


_ZEROS = ("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty")
_ONES = ("ones", "ones_like", "new_ones")

OPERATORS: AtenOperators = {
    "arange": arange,
    "linspace": spaced,
    "eye": identity_matrix,
    **dict.fromkeys(_ZEROS, _filled(0)),
    **dict.fromkeys(_ONES, _filled(1)),
    **dict.fromkeys(("full", "full_like", "new_full"), _filled(0)),
    "fill": fill,
    "zero": fill,
    "copy": copy,
    "scalar_tensor": scalar,
}
