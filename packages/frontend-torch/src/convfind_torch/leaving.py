"""`is_left`: whether a convolution of a graph that records gradients stays PyTorch's."""

from __future__ import annotations

from typing import Any

import torch

from convfind_torch.call import Call
from convfind_torch.engine import engine
from convfind_torch.functional import in_graph
from convfind_torch.graph_calls import call_of, gradients_needed
from convfind_torch.graph_modules import GraphModule


def is_left(node: torch.fx.Node, module: GraphModule) -> bool:
    """Find a convolution and its gradients on random tensors, and compare them with PyTorch's.

    An operator in a graph costs the host more than PyTorch's own convolution. Where calls are
    asynchronous it has to pay for that, or PyTorch's compiler keeps the convolution to itself.

    Args:
        node: a call of PyTorch's in one of Dynamo's graphs.
        module: what would compute it; of no use for that afterwards.
    """
    call = call_of(node, module, _random)
    if call is None:
        return False
    place, needs = engine().place(call.x), gradients_needed(call)
    if isinstance(place, str) or not place.is_asynchronous or not any(needs):
        return False
    call.with_gradients(_recorded, needs)  # the finds
    return engine().is_left(call, needs, _recorded)


def _recorded(call: Call) -> torch.Tensor:
    return in_graph(call.x, call.w, call.b, call.geometry, call.layer)


def _random(example: torch.Tensor) -> torch.Tensor:
    form: dict[str, Any] = {"dtype": example.dtype, "device": example.device}
    made = torch.empty_strided(example.shape, example.stride(), **form)
    random: torch.Tensor = made.normal_() if made.is_floating_point() else made.zero_()
    return random.requires_grad_(example.requires_grad)
