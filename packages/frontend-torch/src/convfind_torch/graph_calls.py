"""`call_of`: the convolution that a node of one of Dynamo's graphs asks for, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import torch

from convfind.types import Direction
from convfind_torch.call import Call
from convfind_torch.geometry import Geometry
from convfind_torch.graph_modules import GraphModule
from convfind_torch.layer import Layer

_GRADIENTS = (Direction.BACKWARD_DATA, Direction.BACKWARD_WEIGHTS)


class _Unknown(Exception):
    """An argument whose sizes are not known before the graph runs."""


def call_of(
    node: torch.fx.Node,
    module: GraphModule,
    tensor: Callable[[torch.Tensor], torch.Tensor] = lambda example: example,
) -> Call | None:
    """Return the forward call; None where sizes are symbolic.

    Args:
        node: a call of PyTorch's in one of Dynamo's graphs.
        module: what would compute it; of no use for that afterwards.
        tensor: makes a tensor from one that the graph has as an example, without memory.
    """

    def made(argument: torch.fx.Node) -> torch.Tensor:
        example = argument.meta.get("example_value")
        if not isinstance(example, torch.Tensor):
            raise _Unknown
        if not _are_fixed((*example.shape, *example.stride())):
            raise _Unknown
        return tensor(example)

    map_arg: Any = torch.fx.map_arg
    try:
        return called_for(module, map_arg(node.args, made), map_arg(node.kwargs, made))
    except _Unknown:
        return None


def called_for(module: GraphModule, args: Any, named: Any) -> Call | None:
    """Return the forward call that a module would compute, given its arguments.

    The module is of no use for that afterwards. None where it is not one convolution of tensors.
    """
    calls = list[Call]()

    def note(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, geometry: Geometry, layer: Layer
    ) -> torch.Tensor:
        constant = layer.options.policy.constant_weights and not torch.is_grad_enabled()
        calls.append(Call(Direction.FORWARD, x, w, None, b, geometry, layer, constant))
        return x

    module.run = note
    module(*args, **named)
    return calls[0] if len(calls) == 1 else None


def gradients_needed(call: Call) -> tuple[bool, bool]:
    """Return whether x and w of a forward call want gradients, where any are recorded."""
    records = torch.is_grad_enabled()
    return records and call.x.requires_grad, records and call.w.requires_grad


def with_its_gradients(call: Call) -> list[Call]:
    """Return a forward call and those of the gradients that it needs, as far as finds see them."""
    return [call, *(call.gradient(one) for one in compress(_GRADIENTS, gradients_needed(call)))]


def _are_fixed(sizes: Sequence[object]) -> bool:
    return all(type(size) is int for size in sizes)
