"""Convolutions with PyTorch's signatures and gradients, computed by convfind.

Whatever is not a plain dense tensor goes to PyTorch: subclasses, meta and fake tensors, tracing,
function transforms. Inside ``torch.compile`` the functions are operators of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.nn.parameter import Parameter

from convfind.types import Direction
from convfind_torch.autograd import recorded, stepped
from convfind_torch.call import Call
from convfind_torch.casting import autocast
from convfind_torch.engine import engine
from convfind_torch.geometry import Geometry, per_axis
from convfind_torch.layer import Layer, anonymous
from convfind_torch.operators import CONVOLUTION
from convfind_torch.options import current_options
from convfind_torch.quick_call import Needs, QuickStep, form_of, is_quiet
from convfind_torch.route import Route

Sizes = int | Sequence[int]
_PLAIN = (torch.Tensor, Parameter)
_BIASES = (torch.Tensor, Parameter, type(None))


def conv1d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> torch.Tensor:
    """Convolve as `torch.nn.functional.conv1d` does."""
    return _conv(1, torch.conv1d, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> torch.Tensor:
    """Convolve as `torch.nn.functional.conv2d` does."""
    return _conv(2, torch.conv2d, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> torch.Tensor:
    """Convolve as `torch.nn.functional.conv3d` does."""
    return _conv(3, torch.conv3d, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> torch.Tensor:
    """Convolve as `torch.nn.functional.conv_transpose1d` does."""
    given = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv_transpose(1, torch.conv_transpose1d, *given)


def conv_transpose2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> torch.Tensor:
    """Convolve as `torch.nn.functional.conv_transpose2d` does."""
    given = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv_transpose(2, torch.conv_transpose2d, *given)


def conv_transpose3d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> torch.Tensor:
    """Convolve as `torch.nn.functional.conv_transpose3d` does."""
    given = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv_transpose(3, torch.conv_transpose3d, *given)


def _conv(
    rank: int,
    pytorch: Callable[..., torch.Tensor],
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
) -> torch.Tensor:
    if is_pytorchs(rank, x, w, b):
        return pytorch(x, w, b, stride, padding, dilation, groups)
    return convolve(rank, x, w, b, stride, padding, dilation, groups, _layer("functional"))


def _conv_transpose(
    rank: int,
    pytorch: Callable[..., torch.Tensor],
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> torch.Tensor:
    if is_pytorchs(rank, x, w, b):
        return pytorch(x, w, b, stride, padding, output_padding, groups, dilation)
    given = (stride, padding, output_padding, groups, dilation)
    return convolve_transposed(rank, x, w, b, *given, _layer("functional"))


def is_pytorchs(rank: int, x: Any, w: Any, b: Any) -> bool:
    """Return whether tensors, or what goes on around them, are not for convfind."""
    if torch.compiler.is_compiling():
        return _is_exporting()
    return not _is_alone(x, w, b) or not (
        rank + 1 <= x.dim() <= rank + 2 == w.dim() and not x.is_meta and x.is_floating_point()
    )


def _is_alone(x: Any, w: Any, b: Any) -> bool:
    """Return whether tensors are plain ones of one device, and nobody watches what is done."""
    return (
        type(x) in _PLAIN
        and type(w) in _PLAIN
        and type(b) in _BIASES
        and x.layout is w.layout is torch.strided
        and x.device == w.device == (w if b is None else b).device
        and not (x.is_neg() or w.is_neg())
        and is_quiet()
    )


def eagerly(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, geometry: Geometry, layer: Layer
) -> torch.Tensor:
    """Compute now, and record gradients where they are wanted."""
    needs = Needs.of(x, w, b)
    if torch.is_grad_enabled() and any(needs):
        key = form_of(x, w, b, geometry), needs
        step = layer.steps.get(key)
        if step is None:
            call = Call(Direction.FORWARD, x, w, None, b, geometry, layer)
            step = QuickStep.of(call, needs, layer.known)
            left = None if step is None else engine().left(call, needs[:2], partial(recorded, step))
            if step is None or left is None:  # not decided yet
                return recorded(step, call)
            step = replace(step, left=left)
            layer.steps.put(key, step)
        y = stepped(x, w, b, geometry, layer, step)
        return torch.convolution(x, w, b, *geometry) if isinstance(y, Route) else y
    constant = layer.options.policy.constant_weights and not torch.is_grad_enabled()
    return engine().compute(Call(Direction.FORWARD, x, w, None, b, geometry, layer, constant))


def in_graph(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, geometry: Geometry, layer: Layer
) -> torch.Tensor:
    """Put an operator into the graph that is being made; without one, compute."""
    arguments = [list(one) if isinstance(one, tuple) else one for one in geometry]
    y: torch.Tensor = CONVOLUTION(x, w, b, *arguments, layer.word)
    return y


Run = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, Geometry, Layer], torch.Tensor]


def convolve(
    rank: int,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
    layer: Layer,
    run: Run = eagerly,
) -> torch.Tensor:
    """Convolve plain tensors; padding may be a word."""
    dilation = per_axis(dilation, rank)
    if isinstance(padding, str):
        x, padding = _padded(rank, x, w, stride, padding, dilation)
    geometry = Geometry.of(rank, stride, padding, dilation, False, 0, groups)
    return _batched(rank, x, w, b, geometry, layer, run)


def convolve_transposed(
    rank: int,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
    layer: Layer,
    run: Run = eagerly,
) -> torch.Tensor:
    """Convolve plain tensors by the transpose."""
    geometry = Geometry.of(rank, stride, padding, dilation, True, output_padding, groups)
    return _batched(rank, x, w, b, geometry, layer, run)


def _batched(
    rank: int,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    geometry: Geometry,
    layer: Layer,
    run: Run,
) -> torch.Tensor:
    """Convolve x, which may have no batch, in the type that autocast asks for."""
    if run is eagerly and torch.compiler.is_compiling():
        run = in_graph
    if torch.is_autocast_enabled("cpu" if x.is_cpu else x.device.type):
        x, w, b = autocast(x, w, b, layer if run is eagerly else None)
    if x.dim() == rank + 1:
        return run(x.unsqueeze(0), w, b, geometry, layer).squeeze(0)
    return run(x, w, b, geometry, layer)


def _padded(
    rank: int,
    x: torch.Tensor,
    w: torch.Tensor,
    stride: Sizes,
    word: str,
    dilation: tuple[int, ...],
) -> tuple[torch.Tensor, tuple[int, ...]]:
    """Return x with what is padded at one side only, and the padding of both sides."""
    if word == "valid":
        return x, (0,) * rank
    if word != "same":
        msg = f"padding {word!r}; possible: 'same', 'valid', or numbers"
        raise RuntimeError(msg)
    if any(step != 1 for step in per_axis(stride, rank)):
        msg = "padding='same' is not supported for strided convolutions; pass numbers"
        raise RuntimeError(msg)
    total = [step * (size - 1) for step, size in zip(dilation, w.shape[2:], strict=True)]
    uneven = [size % 2 for size in total]
    if any(uneven):
        sides = [side for more in reversed(uneven) for side in (0, more)]
        x = torch.nn.functional.pad(x, sides)
    return x, tuple(size // 2 for size in total)


def _is_exporting() -> bool:
    is_exporting = getattr(torch.compiler, "is_exporting", None)
    return is_exporting is not None and bool(is_exporting())


def _layer(name: str) -> Layer:
    return anonymous(name, current_options())


#: The mark that `torch.compiler.assume_constant_result` sets, which would import the compiler.
_layer._dynamo_marked_constant = True  # type: ignore[attr-defined]
