"""The network config: convfind's text form of a problem, the key of every database.

    fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32
    bwd-data-1x3x9x9-8x3x3x3-s2x2-p0x0-d1x1-g1-NHWC-float16_pe:1x1_beta:1.0

Direction, x, w, stride, padding, dilation, groups, layout of x, dtype; then ``_name:value`` for
what differs from its default, in the order of `_TAIL`. New properties may only become new names
there, so that old keys stay readable. Shapes are in N, C, spatial order. A problem has exactly one
such text.
"""

from __future__ import annotations

import re
from typing import Any

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.activation import Activation
from convfind.problem.text.sizes import format_sizes, parse_size, parse_sizes
from convfind.types import AccuracyClass, ConvMode, Direction

_HEAD = re.compile(
    r"(?P<direction>fwd|bwd-data|bwd-weights)-(?P<x>[0-9x]+)-(?P<w>[0-9x]+)-s(?P<stride>[0-9x]+)"
    r"-p(?P<padding>[0-9x]+)-d(?P<dilation>[0-9x]+)-g(?P<groups>[0-9]+)"
    r"-(?P<layout>[A-Z]+)-(?P<dtype>[a-z0-9]+)"
)
_FORM = (
    "<fwd|bwd-data|bwd-weights>-<x>-<w>-s<stride>-p<padding>-d<dilation>-g<groups>-<layout>-<dtype>"
)
_DIRECTIONS = {direction.short: direction for direction in Direction}

#: Name in the tail -> field of the problem, in the order of the text.
_TAIL = {
    "pe": "padding_end",
    "mode": "mode",
    "op": "output_padding",
    "w": "w_layout",
    "y": "y_layout",
    "ydtype": "y_dtype",
    "xs": "x_strides",
    "ws": "w_strides",
    "ys": "y_strides",
    "alpha": "alpha",
    "beta": "beta",
    "deterministic": "deterministic",
    "tf32": "allow_tf32",
    "accuracy": "accuracy",
    "bias": "bias",
    "add": "add",
    "act": "activation",
}
_SIZES = frozenset({"pe", "op", "xs", "ws", "ys"})
_FLAGS = frozenset({"deterministic", "tf32", "bias", "add"})
_NUMBERS = frozenset({"alpha", "beta"})


def format_network_config(problem: ConvProblem) -> str:
    """Return the network config of a problem."""
    head = (
        f"{problem.direction.short}-{format_sizes(problem.x_shape)}-{format_sizes(problem.w_shape)}"
        f"-s{format_sizes(problem.stride)}-p{format_sizes(problem.padding)}"
        f"-d{format_sizes(problem.dilation)}-g{problem.groups}"
        f"-{problem.x_layout.value}-{problem.dtype.value}"
    )
    return head + _format_tail(problem)


def format_problem(problem: ConvProblem) -> str:
    """Return the network config with the numbers of an activation behind its kind.

    ``_act:leaky:0.1``, ``_act:clip:0.0,6.0``; those that a kind has anyway are left out.
    """
    if problem.activation is None:
        return problem.key
    return problem.key.removesuffix(problem.activation.kind) + str(problem.activation)


def _format_tail(problem: ConvProblem) -> str:
    items: list[str] = []
    if problem.padding_end != problem.padding:
        items.append(f"_pe:{format_sizes(problem.padding_end)}")
    if problem.mode is not ConvMode.CONVOLUTION:
        items.append(f"_mode:{problem.mode.value}")
        if any(problem.output_padding):
            items.append(f"_op:{format_sizes(problem.output_padding)}")
    if not problem.layouts_agree:
        if problem.w_layout is not problem.x_layout:
            items.append(f"_w:{problem.w_layout.value}")
        if problem.y_layout is not problem.x_layout:
            items.append(f"_y:{problem.y_layout.value}")
    if problem.y_dtype is not problem.dtype.result:
        items.append(f"_ydtype:{problem.y_dtype.value}")
    if not problem.is_packed:
        given = (("xs", problem.x_strides), ("ws", problem.w_strides), ("ys", problem.y_strides))
        items += [f"_{name}:{format_sizes(steps)}" for name, steps in given if steps is not None]
    if problem.alpha != 1.0:
        items.append(f"_alpha:{problem.alpha!r}")
    if problem.beta != (1.0 if problem.add else 0.0):
        items.append(f"_beta:{problem.beta!r}")
    if problem.deterministic:
        items.append("_deterministic:1")
    if problem.allow_tf32:
        items.append("_tf32:1")
    if problem.accuracy is not AccuracyClass.NORMAL:
        items.append(f"_accuracy:{problem.accuracy.value}")
    if problem.bias:
        items.append("_bias:1")
    if problem.add:
        items.append("_add:1")
    if problem.activation is not None:
        items.append(f"_act:{problem.activation.kind}")
    return "".join(items)


def parse_network_config(text: str) -> ConvProblem:
    """Read a network config, with an activation's numbers; only the canonical text is accepted."""
    head, *tail = text.split("_")
    found = _HEAD.fullmatch(head)
    if not found:
        raise ProblemError("network config", text, f"{_FORM}[_name:value...]")
    fields = _parse_tail(text, tail)
    padding = parse_sizes("padding", found["padding"])
    end = fields.pop("padding_end", padding)
    if len(end) != len(padding):
        raise ProblemError(
            "padding_end", end, f"as many numbers as padding, which has {len(padding)}"
        )
    problem = ConvProblem.create(
        _DIRECTIONS[found["direction"]],
        parse_sizes("x", found["x"]),
        parse_sizes("w", found["w"]),
        stride=parse_sizes("stride", found["stride"]),
        padding=tuple(zip(padding, end, strict=True)),
        dilation=parse_sizes("dilation", found["dilation"]),
        groups=parse_size("groups", found["groups"]),
        layout=found["layout"],
        dtype=found["dtype"],
        **fields,
    )
    if problem.text != text:
        raise ProblemError(
            "network config", text, f"the one spelling of this problem, {problem.text}"
        )
    return problem


def _parse_tail(text: str, items: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for item in items:
        name, colon, value = item.partition(":")
        if name not in _TAIL or not colon:
            raise ProblemError(
                "network config", text, f"after '_' one of {', '.join(_TAIL)}, then ':' and a value"
            )
        fields[_TAIL[name]] = _parse_value(name, value)
    return fields


def _parse_value(name: str, value: str) -> Any:
    if name in _SIZES:
        return parse_sizes(_TAIL[name], value)
    if name in _NUMBERS:
        try:
            return float(value)
        except ValueError:
            raise ProblemError(_TAIL[name], value, "a finite number") from None
    if name in _FLAGS:
        if value != "1":
            raise ProblemError(_TAIL[name], value, "1")
        return True
    return Activation.parse(value) if name == "act" else value
