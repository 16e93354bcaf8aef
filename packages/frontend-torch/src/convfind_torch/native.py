"""PyTorch's own convolutions, beneath whatever overrides them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from convfind_torch.geometry import Geometry

#: Says how products of float32 are rounded, by device and operator; None in older PyTorch.
_PRECISION = getattr(torch._C, "_get_fp32_precision_getter", None)

Gradients = tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]


def convolution(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, geometry: Geometry
) -> torch.Tensor:
    """Compute what ``aten::convolution`` computes, without a gradient."""
    cudnn = torch.backends.cudnn
    return torch.ops.aten._convolution.default(
        x,
        w,
        b,
        *geometry,
        cudnn.benchmark,
        deterministic(),
        cudnn.enabled,
        allow_tf32(x),
    )


def convolution_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    bias_sizes: list[int] | None,
    geometry: Geometry,
    mask: tuple[bool, bool, bool],
) -> Gradients:
    """Compute the gradients of x, w and the bias that the mask asks for."""
    kernel, keys = backward_kernel(dy.device.type)
    arguments = (dy, x, w, bias_sizes, *geometry, list(mask))
    if kernel is None:
        return tuple(torch.ops.aten.convolution_backward.default(*arguments))
    return tuple(kernel.call_boxed(keys, *arguments))


@lru_cache(maxsize=8)
def backward_kernel(device_type: str) -> tuple[Any, Any]:
    """Return PyTorch's kernel and its keys; None for a PyTorch that does not give it out.

    It is asked for before anything overrides it, and stays what it was.
    """
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is None:
        return None, None
    key = getattr(torch._C.DispatchKey, device_type.upper())
    kernel = get_kernel("aten::convolution_backward", device_type.upper())
    return kernel, torch._C.DispatchKeySet(key)


def deterministic() -> bool:
    """Return whether the program asks for the same bits in every run."""
    # The flag that `torch.backends.cudnn.deterministic` reads, at a tenth of its cost.
    is_set: bool = torch._C._get_cudnn_deterministic()
    return is_set or bool(torch.are_deterministic_algorithms_enabled())


def allow_tf32(tensor: torch.Tensor) -> bool:
    """Return whether products of float32 may be rounded to TF32 on a tensor's device."""
    return tensor.is_cuda and tf32_of_convolutions()


def tf32_of_convolutions() -> bool:
    """Return what the program says of convolutions, in the words of PyTorch 2.9 or before."""
    if _PRECISION is None:
        return bool(torch._C._get_cudnn_allow_tf32())
    return bool(_PRECISION("cuda", "conv") == "tf32")


def tf32_of_products() -> bool:
    """Return whether the program lets products of float32 matrices be rounded to TF32 on GPUs."""
    if _PRECISION is None:
        return bool(torch._C._get_cublas_allow_tf32())
    return bool(_PRECISION("cuda", "matmul") == "tf32")
