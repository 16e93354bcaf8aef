"""`known_result`: calls of converted modules whose decisions are known, on the shortest way."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from convfind.types import Direction
from convfind_torch.autograd import stepped
from convfind_torch.call import Call
from convfind_torch.casting import autocast, is_casting
from convfind_torch.engine import engine
from convfind_torch.functional import eagerly
from convfind_torch.geometry import Geometry
from convfind_torch.layer import Layer
from convfind_torch.quick_call import Needs, QuickCall, are_plain, form_of
from convfind_torch.route import Route

#: A result; a route by which PyTorch computes it; or None.
Known: TypeAlias = torch.Tensor | Route | None


def known_result(layer: Layer, x: Any, w: Any, b: Any, how: tuple[Any, ...]) -> Known:
    """Compute a module's call where its decision is known.

    Args:
        layer: the module's.
        x: the image.
        w: the weights.
        b: the bias, or None.
        how: the items of a `Geometry`, which calls that are remembered need not make one of.

    Returns:
        The result; or a route by which PyTorch computes it; or None where nothing is known yet, or
        something around the call may change what it means, such as autocast.
    """
    if not layer.known or not are_plain(x, w, b):
        return None
    if not is_casting(x):
        return _known_result(layer, x, w, b, how)
    if not _has_autocast(x) or x.dim() != w.dim() or not _are_together(x, w, b):
        return None
    x, w, b = autocast(x, w, b, layer)
    y = _known_result(layer, x, w, b, how)
    if isinstance(y, Route):
        return torch.convolution(x, w, b, *how)
    return eagerly(x, w, b, Geometry(*how), layer) if y is None else y


def _known_result(
    layer: Layer,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    how: tuple[Any, ...],
) -> Known:
    """Compute a call of plain tensors as `known_result` does, in their own types."""
    form = form_of(x, w, b, how)
    if torch.is_grad_enabled():
        needs = Needs.of(x, w, b)
        step = layer.steps.get((form, needs))
        return None if step is None else stepped(x, w, b, Geometry(*how), layer, step)
    quick = layer.quick.get(form)
    if quick is not None:
        if isinstance(quick, Route):
            quick.calls += 1
            return quick
        y = quick.result(x, w, b)
        if y is not None:
            return y
    if not _are_together(x, w, b):
        return None
    constant = layer.options.policy.constant_weights
    call = Call(Direction.FORWARD, x, w, None, b, Geometry(*how), layer, constant)
    route = layer.known.get(call.form)
    if route is None:
        return None
    route.calls += 1
    if not route.is_ours:
        layer.quick.put(form, route)
        return route
    y = engine().computed(call, route)
    if (quick := QuickCall.of(call, route, engine().bound)) is not None:
        layer.quick.put(form, quick)
    return y


def _has_autocast(x: torch.Tensor) -> bool:
    return bool(x.is_floating_point() and (x.is_cpu or x.is_cuda))


def _are_together(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> bool:
    return bool(x.device == w.device and (b is None or b.device == w.device))
