"""The network config: convfind's text form of a problem, the key of every database.

    fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32
    bwd-data-1x3x9x9-8x3x3x3-s2x2-p0x0-d1x1-g1-NHWC-float16_pe:1x1_beta:1.0

Direction, x, w, stride, padding, dilation, groups, layout of x, dtype; then ``_name:value`` for
what is not usual, in the order of `FIELDS`. New properties may only become new names
there, so that old keys stay readable. Shapes are in N, C, spatial order. A problem has exactly one
such text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from convfind.errors import ProblemError
from convfind.problem.fields import TAIL, unusual
from convfind.problem.syntax.sizes import format_sizes, parse_size, parse_sizes
from convfind.types import Direction

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem

_HEAD = re.compile(
    r"(?P<direction>fwd|bwd-data|bwd-weights)-(?P<x>[0-9x]+)-(?P<w>[0-9x]+)-s(?P<stride>[0-9x]+)"
    r"-p(?P<padding>[0-9x]+)-d(?P<dilation>[0-9x]+)-g(?P<groups>[0-9]+)"
    r"-(?P<layout>[A-Z]+)-(?P<dtype>[a-z0-9]+)"
)
_FORM = (
    "<fwd|bwd-data|bwd-weights>-<x>-<w>-s<stride>-p<padding>-d<dilation>-g<groups>-<layout>-<dtype>"
)
_DIRECTIONS = {direction.short: direction for direction in Direction}


def format_network_config(problem: ConvProblem) -> str:
    """Return the network config of a problem."""
    head = (
        f"{problem.direction.short}-{format_sizes(problem.x_shape)}-{format_sizes(problem.w_shape)}"
        f"-s{format_sizes(problem.stride)}-p{format_sizes(problem.padding)}"
        f"-d{format_sizes(problem.dilation)}-g{problem.groups}"
        f"-{problem.x_layout.value}-{problem.dtype.value}"
    )
    tail = unusual(problem)
    return head + "".join([f"_{one.key}:{one.spelled(value)}" for one, value in tail])


def format_problem(problem: ConvProblem) -> str:
    """Return the network config with the numbers of an activation behind its kind.

    ``_act:leaky:0.1``, ``_act:clip:0.0,6.0``; those that a kind has anyway are left out.
    """
    if problem.activation is None:
        return problem.key
    return problem.key.removesuffix(problem.activation.kind) + str(problem.activation)


def read_network_config(text: str, problem_type: type[ConvProblem]) -> ConvProblem:
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
    problem = problem_type.create(
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
        if name not in TAIL or not colon:
            raise ProblemError(
                "network config", text, f"after '_' one of {', '.join(TAIL)}, then ':' and a value"
            )
        fields[TAIL[name].name] = TAIL[name].read(value)
    return fields
