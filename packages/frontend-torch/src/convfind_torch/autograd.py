"""`Convolution`: a convolution with gradients, for PyTorch's autograd."""

from __future__ import annotations

from typing import Any

import torch

from convfind.types import Direction
from convfind_torch.call import Call
from convfind_torch.engine import engine
from convfind_torch.geometry import Geometry
from convfind_torch.layer import Layer
from convfind_torch.native import Gradients
from convfind_torch.quick_call import Needs, QuickStep, is_quiet
from convfind_torch.route import Route


class Convolution(torch.autograd.Function):
    """A convolution whose gradients are convolutions that are found, too."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        w: torch.Tensor,
        b: torch.Tensor | None,
        geometry: Geometry,
        layer: Layer,
        step: QuickStep | None,
    ) -> torch.Tensor:
        """Compute the convolution, by a step of its form where there is one."""
        ctx.save_for_backward(x, w)
        ctx.given = (geometry, layer, None if b is None else list(b.shape), step)
        if step is not None and step.y is not None:
            y = step.y.result((x, w) if b is None else (x, w, b))
            if y is not None:
                return y
        return engine().compute(Call(Direction.FORWARD, x, w, None, b, geometry, layer))

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        """Compute the gradients that are needed."""
        x, w = ctx.saved_tensors
        geometry, layer, bias_sizes, step = ctx.given
        mask = Needs(*ctx.needs_input_grad[:3])
        is_many = torch._C._functorch.is_legacy_batchedtensor(dy)
        if torch.is_grad_enabled() or is_many or not is_quiet():
            # Gradients of gradients, those of many results at once, or watched ones.
            found = torch.ops.aten.convolution_backward(dy, x, w, bias_sizes, *geometry, list(mask))
        else:
            found = gradients(dy, x, w, geometry, layer, mask, step)
        return (*found, None, None, None)


def recorded(step: QuickStep | None, call: Call) -> torch.Tensor:
    """Compute a forward call, and record its gradients; by a step of its form if there is one."""
    _, x, w, _, b, geometry, layer, _ = call
    y: torch.Tensor = Convolution.apply(x, w, b, geometry, layer, step)
    return y


def stepped(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    geometry: Geometry,
    layer: Layer,
    step: QuickStep,
) -> torch.Tensor | Route:
    """Compute a call with gradients by the step of its form; or return a route that is PyTorch's.

    PyTorch's own operator records gradients at a fraction of the cost, where all are its own.
    """
    if step.left:
        for route in step.left:
            route.calls += 1
        return step.left[0]
    y: torch.Tensor = Convolution.apply(x, w, b, geometry, layer, step)
    return y


def gradients(
    dy: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    geometry: Geometry,
    layer: Layer,
    mask: Needs,
    step: QuickStep | None = None,
) -> Gradients:
    """Compute the gradients of x, w and the bias that the mask asks for."""
    dx = dw = db = None
    if step is not None and step.is_of(dy, x, w, geometry):
        dx, dw, db = step.gradients(dy, x, w, mask, geometry)
    given = (x, w, dy, None, geometry, layer)
    if mask.x and dx is None:
        dx = engine().compute(Call(Direction.BACKWARD_DATA, *given))
    if mask.w and dw is None:
        dw = engine().compute(Call(Direction.BACKWARD_WEIGHTS, *given))
    if mask.b and db is None:
        db = dy.sum((0, *range(2, dy.dim())))
    return dx, dw, db
