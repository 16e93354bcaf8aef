"""`is_left`: whether a convolution of a graph that records gradients stays PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from convfind.types import Direction
from convfind_torch.call import Call
from convfind_torch.engine import engine
from convfind_torch.functional import in_graph
from convfind_torch.geometry import Geometry
from convfind_torch.graph_modules import GraphModule
from convfind_torch.layer import Layer


class _Unknown(Exception):
    """An argument whose sizes are not known before the graph runs."""


def is_left(node: torch.fx.Node, module: GraphModule) -> bool:
    """Find a convolution and its gradients on random tensors, and compare them with PyTorch's.

    An operator in a graph costs the host more than PyTorch's own convolution. Where calls are
    asynchronous it has to pay for that, or PyTorch's compiler keeps the convolution to itself.

    Args:
        node: a call of PyTorch's in one of Dynamo's graphs.
        module: computes it.
    """
    answers = list[bool]()

    def decide(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, geometry: Geometry, layer: Layer
    ) -> torch.Tensor:
        answers.append(_is_left(Call(Direction.FORWARD, x, w, None, b, geometry, layer)))
        return x

    module.run = decide
    map_arg: Any = torch.fx.map_arg
    try:
        module(*map_arg(node.args, _random), **map_arg(node.kwargs, _random))
    except _Unknown:
        return False
    return answers == [True]


def _is_left(call: Call) -> bool:
    place, needs = engine().place(call.x), (call.x.requires_grad, call.w.requires_grad)
    if isinstance(place, str) or not place.is_asynchronous or not any(needs):
        return False
    call.with_gradients(_recorded, needs)  # the finds
    return engine().is_left(call, needs, _recorded)


def _recorded(call: Call) -> torch.Tensor:
    return in_graph(call.x, call.w, call.b, call.geometry, call.layer)


def _random(node: torch.fx.Node) -> torch.Tensor:
    """Return numbers in place of a tensor of the graph. Raises `_Unknown`."""
    example = node.meta.get("example_value")
    if not isinstance(example, torch.Tensor) or not _are_fixed((*example.shape, *example.stride())):
        raise _Unknown
    form: dict[str, Any] = {"dtype": example.dtype, "device": example.device}
    made = torch.empty_strided(example.shape, example.stride(), **form)
    random: torch.Tensor = made.normal_() if made.is_floating_point() else made.zero_()
    return random.requires_grad_(example.requires_grad)


def _are_fixed(sizes: Sequence[object]) -> bool:
    return all(type(size) is int for size in sizes)
