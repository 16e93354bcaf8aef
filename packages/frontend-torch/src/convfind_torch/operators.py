"""``torch.ops.convfind``: the convolution as operators that compiled graphs can hold.

Eager code does not use them: their dispatch costs more than the function of autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from convfind.types import Direction
from convfind_torch.call import Call
from convfind_torch.engine import engine
from convfind_torch.geometry import Geometry, memory_format, result_shape
from convfind_torch.layer import anonymous
from convfind_torch.options import Options
from convfind_torch.quick_call import (
    QuickCall,
    ReadyWay,
    are_plain,
    are_plain_of_gradient,
    form_of,
    is_quiet,
)

_GEOMETRY = (
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups, str options"
)


def _convolution(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, *arguments: Any
) -> torch.Tensor:
    call = _call(Direction.FORWARD, x, w, None, b, arguments)
    if not are_plain(x, w, b):
        return engine().compute(call)
    form = form_of(x, w, b, call.geometry)
    quick = call.layer.quick.get(form)
    y = quick.result(x, w, b) if isinstance(quick, QuickCall) else None
    if y is None:
        route = engine().route(call)
        y = engine().computed(call, route)
        quick = QuickCall.of(call, route, engine().bound)
        if quick is not None and quick.bound is None:  # else weights would stay for ever
            call.layer.quick.put(form, quick)
    return y


def _data_gradient(
    dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *arguments: Any
) -> torch.Tensor:
    return _gradient(_call(Direction.BACKWARD_DATA, x, w, dy, None, arguments), dy)


def _weight_gradient(
    dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *arguments: Any
) -> torch.Tensor:
    return _gradient(_call(Direction.BACKWARD_WEIGHTS, x, w, dy, None, arguments), dy)


def _gradient(call: Call, dy: torch.Tensor) -> torch.Tensor:
    x, w, layer = call.x, call.w, call.layer
    if not (is_quiet() and are_plain_of_gradient(dy, x, w)):
        return engine().compute(call)
    form = call.direction.value, form_of(x, w, None, call.geometry)
    kernels = layer.gradients.get(form)
    gradient = None if kernels is None else kernels.gradient(dy, x, w)
    if gradient is None:
        route = engine().route(call)
        gradient = engine().computed(call, route)
        read = {"w": w} if call.direction is Direction.BACKWARD_DATA else {"x": x}
        kernels = ReadyWay.of(route, None, read)
        if kernels is not None:
            layer.gradients.put(form, kernels)
    return gradient


def _call(
    direction: Direction,
    x: torch.Tensor,
    w: torch.Tensor,
    dy: torch.Tensor | None,
    b: torch.Tensor | None,
    arguments: Sequence[Any],
) -> Call:
    geometry, options = _geometry(arguments), Options.from_word(arguments[6])
    constant = options.policy.constant_weights and direction is Direction.FORWARD
    layer = anonymous("torch.compile", options)
    return Call(direction, x, w, dy, b, geometry, layer, constant)


def _geometry(arguments: Sequence[Any]) -> Geometry:
    stride, padding, dilation, transposed, output_padding, groups = arguments[:6]
    return Geometry(
        *(tuple(stride), tuple(padding), tuple(dilation)),
        *(transposed, tuple(output_padding), groups),
    )


def _fake_convolution(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, *arguments: Any
) -> torch.Tensor:
    shape = result_shape(x.shape, w.shape, _geometry(arguments))
    return x.new_empty(shape).contiguous(memory_format=memory_format(x, w))


def _fake_data_gradient(
    dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *arguments: Any
) -> torch.Tensor:
    return dy.new_empty(x.shape).contiguous(memory_format=memory_format(x, w))


def _fake_weight_gradient(
    dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *arguments: Any
) -> torch.Tensor:
    return dy.new_empty(w.shape).contiguous(memory_format=memory_format(x, w))


class _Recorded(torch.autograd.Function):
    """The convolution with its gradients, made of operators that record nothing themselves."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, *arguments: Any
    ) -> torch.Tensor:
        ctx.arguments = arguments
        ctx.save_for_backward(x, w)
        return _unrecorded(x, w, b, *arguments)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        if torch.is_grad_enabled():  # gradients of gradients: PyTorch's formula
            mask, sizes = list(ctx.needs_input_grad[:3]), list(w.shape[:1])
            sizes = [dy.shape[1]] if mask[2] else []
            found = torch.ops.aten.convolution_backward(
                *(dy, x, w, sizes or None, *ctx.arguments[:6], mask)
            )
            return (*found, *[None] * len(ctx.arguments))
        needs, given = ctx.needs_input_grad, (dy, x, w, *ctx.arguments)
        dx = DATA_GRADIENT(*given) if needs[0] else None
        dw = WEIGHT_GRADIENT(*given) if needs[1] else None
        db = dy.sum((0, *range(2, dy.dim()))) if needs[2] else None
        return (dx, dw, db, *[None] * len(ctx.arguments))


def _unrecorded(*given: Any) -> torch.Tensor:
    with torch._C._AutoDispatchBelowAutograd():
        y: torch.Tensor = FORWARD(*given)
    return y


def _recorded(*given: Any) -> torch.Tensor:
    """Compute, and record gradients where they are wanted.

    Traced graphs get the operators below it: a function of autograd around each of their calls
    would cost more than small kernels.
    """
    return _Recorded.apply(*given) if torch.is_grad_enabled() else _unrecorded(*given)


#: Not `torch.library.custom_op`, which surrounds each call with checks that cost more than kernels.
_LIBRARY = torch.library.Library("convfind", "FRAGMENT")


def _defined(name: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Define an operator that computes eagerly, and without data tells shape and strides."""
    _LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"convfind::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.convfind, name).default


FORWARD = _defined(
    "convolution_forward",
    f"(Tensor x, Tensor w, Tensor? b, {_GEOMETRY}) -> Tensor",
    *(_convolution, _fake_convolution),
)
DATA_GRADIENT = _defined(
    "convolution_data_gradient",
    f"(Tensor dy, Tensor x, Tensor w, {_GEOMETRY}) -> Tensor",
    *(_data_gradient, _fake_data_gradient),
)
WEIGHT_GRADIENT = _defined(
    "convolution_weight_gradient",
    f"(Tensor dy, Tensor x, Tensor w, {_GEOMETRY}) -> Tensor",
    *(_weight_gradient, _fake_weight_gradient),
)
CONVOLUTION = _defined(
    "convolution",
    f"(Tensor x, Tensor w, Tensor? b, {_GEOMETRY}) -> Tensor",
    *(_convolution, _fake_convolution),
)
_LIBRARY.impl("convolution", _recorded, "Autograd")
