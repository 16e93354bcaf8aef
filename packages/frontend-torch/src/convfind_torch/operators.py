"""``torch.ops.convfind``: the convolution as operators that compiled graphs can hold.

Eager code does not use them: their dispatch costs more than the function of autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from convfind.types import Direction
from convfind_torch.call import Call
from convfind_torch.engine import engine
from convfind_torch.geometry import Geometry, memory_format, result_shape
from convfind_torch.layer import anonymous
from convfind_torch.options import Options

_GEOMETRY = (
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups, str options"
)


def _convolution(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, *arguments: Any
) -> torch.Tensor:
    return engine().compute(_call(Direction.FORWARD, x, w, None, b, arguments))


def _data_gradient(
    dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *arguments: Any
) -> torch.Tensor:
    return engine().compute(_call(Direction.BACKWARD_DATA, x, w, dy, None, arguments))


def _weight_gradient(
    dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *arguments: Any
) -> torch.Tensor:
    return engine().compute(_call(Direction.BACKWARD_WEIGHTS, x, w, dy, None, arguments))


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


def _remember(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, w, _, *ctx.arguments = inputs
    ctx.save_for_backward(x, w)


def _backward(ctx: Any, dy: torch.Tensor) -> Any:
    x, w = ctx.saved_tensors
    needs, given = ctx.needs_input_grad, (dy, x, w, *ctx.arguments)
    dx = DATA_GRADIENT(*given) if needs[0] else None
    dw = WEIGHT_GRADIENT(*given) if needs[1] else None
    db = dy.sum((0, *range(2, dy.dim()))) if needs[2] else None
    return (dx, dw, db, *[None] * len(ctx.arguments))


_define = torch.library.custom_op
CONVOLUTION = _define(
    "convfind::convolution",
    _convolution,
    mutates_args=(),
    schema=f"(Tensor x, Tensor w, Tensor? b, {_GEOMETRY}) -> Tensor",
)
DATA_GRADIENT = _define(
    "convfind::convolution_data_gradient",
    _data_gradient,
    mutates_args=(),
    schema=f"(Tensor dy, Tensor x, Tensor w, {_GEOMETRY}) -> Tensor",
)
WEIGHT_GRADIENT = _define(
    "convfind::convolution_weight_gradient",
    _weight_gradient,
    mutates_args=(),
    schema=f"(Tensor dy, Tensor x, Tensor w, {_GEOMETRY}) -> Tensor",
)
CONVOLUTION.register_fake(_fake_convolution)
DATA_GRADIENT.register_fake(_fake_data_gradient)
WEIGHT_GRADIENT.register_fake(_fake_weight_gradient)
CONVOLUTION.register_autograd(_backward, setup_context=_remember)
