"""PyTorch's own samples of convolutions, with gradients, through functions, patch and modules."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from quick_finds import NAIVE, QUICK, TOLERANCE
from torch import nn

import convfind_torch
from convfind_torch import functional

pytest.importorskip("expecttest", reason="PyTorch's samples need it")

# PyTorch's testing modules warn of what they import.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even:UserWarning"),
]

NAMES = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def samples(name: str, dtype: torch.dtype) -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    (info,) = (one for one in op_db if one.name == f"nn.functional.{name}")
    return list(info.sample_inputs("cpu", dtype, requires_grad=True))


def computed(function: Any, sample: Any) -> list[torch.Tensor]:
    """The result, and the gradients of all tensors of a sample."""
    tensors = [one for one in (sample.input, *sample.args) if isinstance(one, torch.Tensor)]
    y = function(sample.input, *sample.args, **sample.kwargs)
    return [y.detach(), *torch.autograd.grad(y, tensors, torch.ones_like(y))]


@pytest.mark.parametrize("through", ["functional", "patched"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_samples_give_pytorchs_results(through: str, name: str, dtype: torch.dtype) -> None:
    pytorch = getattr(torch.nn.functional, name)
    ours = pytorch if through == "patched" else getattr(functional, name)
    inside = convfind_torch.patched if through == "patched" else convfind_torch.using
    for sample in samples(name, dtype):
        right = computed(pytorch, sample)
        with inside(**QUICK):
            found = computed(ours, sample)
        for got, exact in zip(found, right, strict=True):
            scale = float(exact.double().abs().max()) if exact.numel() else 0.0
            error = 4 * TOLERANCE[dtype] * max(1.0, scale)
            torch.testing.assert_close(got, exact, atol=error, rtol=0)
            assert got.stride() == exact.stride()
    posed = [one for one in convfind_torch.report().lines if " " not in one.problem]
    assert all(one.where in NAIVE for one in posed if one.layer == through)


def module_of(name: str, sample: Any) -> nn.Module | None:
    """A module that computes a sample; None where modules take no such arguments."""
    x, (w, *rest), given = sample.input, sample.args, dict(sample.kwargs)
    bias = rest[0] if rest else given.pop("bias", None)
    transposed, groups = "transpose" in name, given.get("groups", 1)
    rank = w.dim() - 2
    if len(rest) > 1 or x.dim() < rank + 1:
        return None
    channels = (
        (w.shape[0], w.shape[1] * groups) if transposed else (w.shape[1] * groups, w.shape[0])
    )
    kind = getattr(nn, f"ConvTranspose{rank}d" if transposed else f"Conv{rank}d")
    module = kind(*channels, tuple(w.shape[2:]), bias=bias is not None, dtype=w.dtype, **given)
    module.weight = nn.Parameter(w.detach().clone())
    if bias is not None:
        module.bias = nn.Parameter(bias.detach().clone())
    return cast(nn.Module, module)


def results(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.detach().requires_grad_()
    y = module(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], torch.ones_like(y))]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_converted_modules_give_pytorchs_results(name: str, dtype: torch.dtype) -> None:
    modules = [(module_of(name, one), one.input) for one in samples(name, dtype)]
    assert sum(module is not None for module, _ in modules) >= 3
    for module, x in modules:
        if module is None:
            continue
        right = results(module, x)
        found = results(convfind_torch.convert(module, **QUICK), x)
        for got, exact in zip(found, right, strict=True):
            scale = float(exact.double().abs().max()) if exact.numel() else 0.0
            error = 4 * TOLERANCE[dtype] * max(1.0, scale)
            torch.testing.assert_close(got, exact, atol=error, rtol=0)
            assert got.stride() == exact.stride()
