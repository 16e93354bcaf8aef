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
    ) -> torch.Tensor:
        """Compute the convolution."""
        ctx.save_for_backward(x, w)
        ctx.given = (geometry, layer, None if b is None else list(b.shape))
        return engine().compute(Call(Direction.FORWARD, x, w, None, b, geometry, layer))

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        """Compute the gradients that are needed."""
        x, w = ctx.saved_tensors
        geometry, layer, bias_sizes = ctx.given
        mask = tuple(ctx.needs_input_grad[:3])
        if torch.is_grad_enabled():
            # Gradients of gradients: PyTorch's formula.
            found = torch.ops.aten.convolution_backward(dy, x, w, bias_sizes, *geometry, list(mask))
        else:
            found = gradients(dy, x, w, geometry, layer, mask)
        return (*found, None, None)


def recorded(call: Call) -> torch.Tensor:
    """Compute a forward call, and record its gradients."""
    y: torch.Tensor = Convolution.apply(call.x, call.w, call.b, call.geometry, call.layer)
    return y


def gradients(
    dy: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    geometry: Geometry,
    layer: Layer,
    mask: tuple[bool, ...],
) -> Gradients:
    """Compute the gradients of x, w and the bias that the mask asks for."""
    given = (x, w, dy, None, geometry, layer)
    dx = engine().compute(Call(Direction.BACKWARD_DATA, *given)) if mask[0] else None
    dw = engine().compute(Call(Direction.BACKWARD_WEIGHTS, *given)) if mask[1] else None
    db = dy.sum((0, *range(2, dy.dim()))) if mask[2] else None
    return dx, dw, db
