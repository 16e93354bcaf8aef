"""Autocast: whether it is on for a convolution's tensors, and tensors in the type it asks for."""

from __future__ import annotations

import torch

from convfind_torch.engine import engine
from convfind_torch.layer import Layer


def is_casting(x: torch.Tensor) -> bool:
    """Return whether autocast may give convolutions of a tensor another type, or is not known."""
    if x.is_cpu:
        return bool(torch.is_autocast_enabled("cpu"))
    return not x.is_cuda or bool(torch.is_autocast_enabled("cuda"))


def autocast(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, layer: Layer | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return tensors in the type that autocast asks for; a layer may keep its weights in it."""
    dtype = torch.get_autocast_dtype("cpu" if x.is_cpu else x.device.type)
    w = _cast(w, dtype) if layer is None else _cast_weights(w, dtype, layer)
    return _cast(x, dtype), w, None if b is None else _cast(b, dtype)


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor as autocast gives it to convolutions: float64 stays."""
    if not tensor.is_floating_point() or tensor.dtype is torch.float64:
        return tensor
    return tensor.to(dtype)


def _cast_weights(w: torch.Tensor, dtype: torch.dtype, layer: Layer) -> torch.Tensor:
    """Return weights as autocast gives them, and those that may be kept once for all calls."""
    constant = layer.options.policy.constant_weights and not torch.is_grad_enabled()
    is_cast = w.dtype is not dtype and w.dtype is not torch.float64
    if constant and is_cast and not (w.is_cuda and torch.cuda.is_current_stream_capturing()):
        return engine().bound.cast(w, dtype)
    return _cast(w, dtype)
